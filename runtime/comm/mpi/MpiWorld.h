//===- MpiWorld.h - ranks as processes of an MPI job -----------------------------------------===//
//
// Every process that mpirun starts is one rank. MPI's own reductions may add in any order, and need not agree between
// algorithms. So MPI only carries messages, of which MessageCommunicator makes the collectives.
//
//   if (launchedByMpi()) {
//     Result<std::unique_ptr<World>> world = createMpiWorld();   // MPI_Init; ~World: MPI_Finalize
//     ...
//
// MPI's errors come back as Status. abort() writes its reason to stderr and ends the job with MPI_Abort: the
// other processes are killed, their calls do not return. A World must not be destroyed while other ranks still
// communicate: a failing rank calls abort() first.
//
// In a build without MPI, launchedByMpi() works as well, and createMpiWorld() returns an error that says how to build
// with MPI.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPI_MPIWORLD_H
#define TESSERA_RUNTIME_COMM_MPI_MPIWORLD_H

#include "runtime/comm/Communicator.h"

#include <string>

namespace tessera::rt {

/// Whether an MPI launcher started this process, judged by environment variables. MPI is not called.
bool launchedByMpi();

/// The world of this process's rank. Called at most once per process. `peerTimeout` is the seconds of silence after
/// which a rank counts as lost and the job is ended (MpiWatch.h); 0 waits for ever.
Result<std::unique_ptr<World>> createMpiWorld(double peerTimeout = 0);

/// "Open MPI v4.1.4"; empty in a build without MPI. May be called before MPI is up.
std::string mpiLibrary();

} // namespace tessera::rt

#endif
