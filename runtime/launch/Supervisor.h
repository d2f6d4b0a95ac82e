//===- Supervisor.h - processes that are started, and started again -------------------------------===//
//
// Starts this program anew for every child, with the same arguments and more in the environment, and waits for all of
// them. If one fails, the others notice by themselves (TcpWorld.h) and end; who does not is killed. Then all start
// again, from the last checkpoint, as often as they may. On several machines every machine's supervisor sees its
// own children fail and does the same. With Elastic.h, those that were lost are not started again: who was ended by a
// signal, who had to be killed since it was stopped or did not end, and who failed by itself twice in a row.
//
//   SupervisorOptions options{...};
//   int code = supervise(options);                  // what this process ends with
//
// It gives up where another start would only fail again: after an error of a first start that lasts (kExitLasting), and
// after two failures in a row with the same error and without a new checkpoint. Where there is none, it pauses longer
// from try to try.
//
// SIGINT and SIGTERM go on to the children, which stop after a step. If the supervisor dies, so do they.
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
  double graceSeconds = 30;       // for the others to end after one has failed
  std::optional<Elastic> elastic; // else always all ranks
  std::string folder;             // of the checkpoints: where supervisors of several machines agree
  /// The step of the last checkpoint; -1: there is none.
  std::function<int64_t()> lastCheckpoint = [] { return int64_t(-1); };
};

/// In a supervised rank that is not ended by another: what its supervisor is to compare with the next failure.
void tellSupervisor(const std::string &error);

/// Seconds before another start, after so many failures in a row without a new checkpoint.
double restartPause(int failures);

/// Writes what happened to stderr.
int supervise(SupervisorOptions options);

} // namespace tessera::rt

#endif
