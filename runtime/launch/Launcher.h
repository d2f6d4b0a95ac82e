//===- Launcher.h - ranks as threads, and how they stop ---------------------------------------===//
//
//   Status status = runRanks(4, [&](World &world) -> Status { ... });
//
// If one rank fails, its world is aborted: the others' collectives return errors and they end too. The result is the
// first failure, since all later ones follow from it. With several threads it begins with the rank: "rank 2: ...".
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_LAUNCHER_H
#define TESSERA_RUNTIME_LAUNCH_LAUNCHER_H

#include "runtime/comm/Communicator.h"

#include <functional>
#include <vector>

namespace tessera::rt {

/// Runs `body` on n threads, one World each; returns when all have ended.
Status runRanks(int n, const std::function<Status(World &)> &body);
/// The same on existing worlds: for tests, and for one MPI process (n == 1).
Status runRanks(std::vector<std::unique_ptr<World>> worlds, const std::function<Status(World &)> &body);

/// The number of kernel threads per rank when `localRanks` ranks share the cores; at least one. `localCores` is the
/// number of shared cores; this process may be bound to its own part of them already, which is then not divided again.
/// With 0, the ranks share all cores that this process may use.
int threadsPerRank(int localRanks, int localCores = 0);

/// From now on SIGINT and SIGTERM are only noted; a second one ends the process at once.
void catchInterrupts();
/// The signal that was noted first, or 0.
int interrupted();
/// Notes a signal as if it had come.
void requestInterrupt(int signal);
/// Forgets it: what comes next starts afresh.
void clearInterrupt();

/// The signal that has interrupted any rank, or 0: the same answer on all ranks.
Result<int> anyInterrupted(Communicator &everyone);

} // namespace tessera::rt

#endif
