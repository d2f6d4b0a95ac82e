//===- MpiWorld.h - ranks as processes of an MPI job -----------------------------------------===//
//
// The transport between machines, and between processes of one: every process that mpirun starts is
// one rank. Results are those of the thread transport, bit for bit: MPI's own reductions may add in
// any order (and need not agree between algorithms), so a reduction moves data by MPI and adds by
// Reduce.h. Small messages are gathered by all; larger ones go as reduce-scatter (all-to-all of
// slices, ordered local sum) and all-gather, in segments that stay in the cache (Thakur,
// Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005,
// section 4.5, with the tree replaced by all-to-all).
//
//   if (launchedByMpi()) {
//     Result<std::unique_ptr<World>> world = createMpiWorld();   // MPI_Init; ~World: MPI_Finalize
//     ...
//
// Mismatched calls and bad arguments are errors on all members, as with threads: the signatures
// travel ahead of the data. MPI's errors come back as Status. abort() writes its reason to stderr
// and ends the job with MPI_Abort: the other processes are killed, their calls do not return. A
// World must not be destroyed while other ranks still communicate: a failing rank calls abort()
// first.
//
// Built without MPI, launchedByMpi() still tells and createMpiWorld() says how to get it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPIWORLD_H
#define TESSERA_RUNTIME_COMM_MPIWORLD_H

#include "runtime/comm/Communicator.h"

namespace tessera::rt {

/// This process was started by an MPI launcher (told from the environment; MPI is not touched).
bool launchedByMpi();

/// This process's rank in the job. At most once per process.
Result<std::unique_ptr<World>> createMpiWorld();

} // namespace tessera::rt

#endif
