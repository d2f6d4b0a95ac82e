//===- Supervisor.h - processes that are started, and started again -------------------------------===//
//
// Starts this program anew for every child, with the same arguments and additions to the environment, and waits for all
// children. If one fails, the others notice by themselves (TcpWorld.h) and end; a child that does not end is killed.
// Then all start again from the last checkpoint, as often as the options allow. On several machines every machine's
// supervisor sees its own children fail and does the same. With Elastic.h, lost ranks are not started again. A rank is
// lost if a signal ended it, if it had to be killed since it was stopped or did not end, or if it failed by itself
// twice in a row.
//
//   SupervisorOptions options{...};
//   int code = supervise(options);                  // what this process ends with
//
// The supervisor gives up where another start would only fail again: if the first start failed in a lasting way
// (kExitLasting), or after two failures in a row with the same error and without a new checkpoint. As long as no new
// checkpoint appears, it pauses longer from start to start.
//
// SIGINT and SIGTERM are passed on to the children, which stop after a step. If the supervisor dies, so do the
// children.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_SUPERVISOR_H
#define TESSERA_RUNTIME_LAUNCH_SUPERVISOR_H

#include "runtime/launch/Elastic.h"
#include "runtime/support/ExitCodes.h"

#include <functional>
#include <optional>
#include <string>

namespace tessera::rt {

struct SupervisorOptions {
  LaunchContext context;
  char **arguments = nullptr; // of main()
  int restarts = 0;
  double graceSeconds = 30;       // in which the other ranks must end after one has failed
  std::optional<Elastic> elastic; // empty: every start has all ranks
  std::string folder;             // of the checkpoints; supervisors of several machines agree there
  /// The step of the last checkpoint; -1: there is none.
  std::function<int64_t()> lastCheckpoint = [] { return int64_t(-1); };
};

/// Called in a supervised rank that failed by itself. The supervisor compares the error with that of the next failure.
void tellSupervisor(const std::string &error);

/// The pause in seconds before another start, after `failures` failures in a row without a new checkpoint.
double restartPause(int failures);

/// Runs until the children end for good and returns their exit code. Writes what happened to stderr.
int supervise(SupervisorOptions options);

} // namespace tessera::rt

#endif
