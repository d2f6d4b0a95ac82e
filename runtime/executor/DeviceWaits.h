//===- DeviceWaits.h - what a device waited for other ranks -----------------------------------------===//
//
// A device runs a program by itself, so that the host sees how long it took and not for whom it waited. Every so many
// runs the backend measures that (LoadedPlan::waited). What such a run took besides is what this rank's device needs
// for its own kernels, and other runs are held against it:
//
//   DeviceWaits waits;
//   waits.run(0.030, 0.002, {});      // none: nothing has been measured yet
//   waits.run(0.030, 0.002, 0.012);   // 0.012; the device's own work is 18 ms
//   waits.run(0.035, 0.002, {});      // 0.017
//   waits.run(0.035, 0.025, {});      // 0.010: the host was the slower one
//
// The device's own work is the median of the last three figures, so that one hiccup is none in the runs after it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_DEVICEWAITS_H
#define TESSERA_RUNTIME_EXECUTOR_DEVICEWAITS_H

#include <optional>
#include <vector>

namespace tessera::rt {

class DeviceWaits {
public:
  /// A run that took `seconds`, for `host` of which the host was busy with launches and the next batch; `measured` is
  /// what the backend says. How long this rank waited for others.
  std::optional<double> run(double seconds, double host, std::optional<double> measured);

private:
  std::vector<double> own_; // of the last runs that were measured
};

} // namespace tessera::rt

#endif
