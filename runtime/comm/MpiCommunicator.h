//===- MpiCommunicator.h - a group of MPI processes ------------------------------------------===//
//
// Internal to the MPI transport.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPICOMMUNICATOR_H
#define TESSERA_RUNTIME_COMM_MPICOMMUNICATOR_H

#include "runtime/comm/Communicator.h"

#include <mpi.h>

namespace tessera::rt {

/// Success, or "MPI_Allgather: message truncated".
Status mpiStatus(int code, const char *function);

/// Takes ownership of `comm`, whose members are the world ranks `ranks` in order.
std::unique_ptr<Communicator> createMpiCommunicator(MPI_Comm comm, std::vector<int> ranks);

} // namespace tessera::rt

#endif
