//===- MpiMessages.h - messages by MPI -----------------------------------------------------------===//
//
// Internal to the MPI transport. MPI counts bytes in `int`, so longer messages are sent in parts.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPI_MPIMESSAGES_H
#define TESSERA_RUNTIME_COMM_MPI_MPIMESSAGES_H

#include "runtime/comm/Messages.h"

#include <mpi.h>

namespace tessera::rt {

/// Success, or "MPI_Allgather: message truncated".
Status mpiStatus(int code, const char *function);

/// Takes ownership of `comm`.
std::unique_ptr<MessageGroup> createMpiGroup(MPI_Comm comm);

} // namespace tessera::rt

#endif
