//===- Monitor.h - finds a rank that hangs --------------------------------------------------------===//
//
// A thread beside a rank. If the rank gets nowhere for some seconds (no kernel, no collective, no batch), it says
// where the rank stands, gives the other ranks' monitors a moment to do the same, and aborts the world. A rank that
// does not end then either, since it hangs in a kernel or in a read, is ended with its process.
//
//   Monitor monitor(executor, world, log, 60);
//   // [rank 1] no progress for 60 s: step 17, program 'train', 12 of 31: collective 'fc1/all-reduce'
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_MONITOR_H
#define TESSERA_RUNTIME_TELEMETRY_MONITOR_H

#include "runtime/executor/Executor.h"
#include "runtime/telemetry/RankLog.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tessera::rt {

class Monitor {
public:
  /// All arguments outlive the monitor.
  Monitor(Executor &executor, World &world, RankLog &log, double seconds);
  ~Monitor();

private:
  void run();
  /// Waits; true if the rank has ended meanwhile.
  bool pause(double seconds);
  void dump(const std::string &why);

  Executor &executor_;
  World &world_;
  RankLog &log_;
  const double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

} // namespace tessera::rt

#endif
