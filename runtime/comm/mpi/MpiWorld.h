//===- MpiWorld.h - ranks as processes of an MPI job -----------------------------------------===//
//
// Every process that mpirun starts is one rank. MPI's own reductions may add in any order (and need not agree
// between algorithms), so MPI carries messages only, of which MessageCommunicator makes the collectives.
//
//   if (launchedByMpi()) {
//     Result<std::unique_ptr<World>> world = createMpiWorld();   // MPI_Init; ~World: MPI_Finalize
//     ...
//
// MPI's errors come back as Status. abort() writes its reason to stderr and ends the job with MPI_Abort: the
// other processes are killed, their calls do not return. A World must not be destroyed while other ranks still
// communicate: a failing rank calls abort() first.
//
// Built without MPI, launchedByMpi() still tells and createMpiWorld() says how to get it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPI_MPIWORLD_H
#define TESSERA_RUNTIME_COMM_MPI_MPIWORLD_H

#include "runtime/comm/Communicator.h"

namespace tessera::rt {

/// This process was started by an MPI launcher (told from the environment; MPI is not touched).
bool launchedByMpi();

/// This process's rank in the job. At most once per process. `peerTimeout`: seconds of silence after which a rank
/// counts as lost and the job is ended (MpiWatch.h); 0: never.
Result<std::unique_ptr<World>> createMpiWorld(double peerTimeout = 0);

} // namespace tessera::rt

#endif
