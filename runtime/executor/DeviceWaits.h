//===- DeviceWaits.h - what a device waited for other ranks -----------------------------------------===//
//
// A device runs a program by itself, so that the host sees how long it took, but not how long it waited for other
// ranks. Now and then the backend measures a run's wait (WaitTimers::waited). The rest of that run's time is the
// device's own work. In other runs the wait is estimated as the time beyond that:
//
//   DeviceWaits waits;
//   waits.run(0.030, 0.002, {});      // none: nothing has been measured yet
//   waits.run(0.030, 0.002, 0.012);   // 0.012; the device's own work is 18 ms
//   waits.run(0.035, 0.002, {});      // 0.017
//   waits.run(0.035, 0.025, {});      // 0.010: the host was the slower one
//
// The device's own work is the median of the last three measurements, so that one outlier does not spoil the runs after
// it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_DEVICEWAITS_H
#define TESSERA_RUNTIME_EXECUTOR_DEVICEWAITS_H

#include <optional>
#include <vector>

namespace tessera::rt {

class DeviceWaits {
public:
  /// Notes a run and returns how long this rank waited in it for others, in seconds; nothing before the first
  /// measurement. The run took `seconds`. The host was busy with launches and the next batch for `host` of them.
  /// `measured` is the wait that the backend measured in this run, if it did.
  std::optional<double> run(double seconds, double host, std::optional<double> measured);

private:
  std::vector<double> own_; // the own work in the last measured runs, in seconds
};

} // namespace tessera::rt

#endif
