//===- Supervisor.h - processes that are started, and started again -------------------------------===//
//
// Starts this program anew for every child, with the same arguments and more in the environment, and waits for all of
// them. If one fails, the others notice by themselves (TcpWorld.h) and end; who does not is killed. Then all start
// again, from the last checkpoint, as often as they may. On several machines every machine's supervisor sees its
// own children fail and does the same.
//
//   SupervisorOptions options{...};
//   int code = supervise(options);                  // what this process ends with
//
// SIGINT and SIGTERM go on to the children, which stop after a step. If the supervisor dies, so do they.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_SUPERVISOR_H
#define TESSERA_RUNTIME_EXECUTOR_SUPERVISOR_H

#include "runtime/executor/Placement.h"

namespace tessera::rt {

/// A program that ends with one of these would only do so again.
constexpr int kExitUsage = 2, kExitNumerics = 3, kExitInterrupted = 130;

struct SupervisorOptions {
  Placement placement;
  char **arguments = nullptr; // of main()
  int restarts = 0;
  double graceSeconds = 30; // for the others to end after one has failed
};

/// Writes what happened to stderr.
int supervise(const SupervisorOptions &options);

} // namespace tessera::rt

#endif
