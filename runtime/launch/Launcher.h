//===- Launcher.h - ranks as threads, and how they stop ---------------------------------------===//
//
//   Status status = runRanks(4, [&](World &world) -> Status { ... });
//
// If one rank fails, its world is aborted: the others' collectives return errors and they end too.
// The result is the first failure, with several threads "rank 2: ..."; what the others say only follows from it.
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
/// The same on worlds that exist (for tests, and for one MPI process: n == 1).
Status runRanks(std::vector<std::unique_ptr<World>> worlds, const std::function<Status(World &)> &body);

/// How many cores this process may use (its affinity mask, not the machine's size).
int availableCores();
/// Kernel threads per rank when `localRanks` share the cores: at least one. `localCores`: how many those are. Then this
/// process may be bound to its own part of them already, which is not divided again. 0: all that it may use.
int threadsPerRank(int localRanks, int localCores = 0);

/// From now on SIGINT and SIGTERM only set a flag; a second one ends the process at once.
void catchInterrupts();
bool interrupted();
/// Sets the flag as a signal would.
void requestInterrupt();
/// Clears the flag: what comes next starts afresh.
void clearInterrupt();

/// Whether any rank was interrupted: the same answer on all ranks.
Result<bool> anyInterrupted(Communicator &everyone);

} // namespace tessera::rt

#endif
