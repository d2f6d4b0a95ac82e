//===- MpiMessages.h - rounds of point-to-point messages -----------------------------------------===//
//
// Internal to the MPI transport. A round collects nonblocking sends and receives and completes them
// together; two rounds with different tags may be under way at once. Messages between two members match
// in the order in which they are posted, per tag.
//
//   MpiRound round(comm, 1);
//   TESSERA_RETURN_IF_ERROR(round.receive(from, buffer, bytes));
//   TESSERA_RETURN_IF_ERROR(round.send(to, data, bytes));
//   TESSERA_RETURN_IF_ERROR(round.wait());
//
// MPI counts are ints: longer messages are cut.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPIMESSAGES_H
#define TESSERA_RUNTIME_COMM_MPIMESSAGES_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <mpi.h>
#include <vector>

namespace tessera::rt {

/// No message is longer.
inline constexpr size_t kMostMessage = 1 << 30;

/// Success, or "MPI_Allgather: message truncated".
Status mpiStatus(int code, const char *function);

class MpiRound {
public:
  MpiRound(MPI_Comm comm, int tag) : comm_(comm), tag_(tag) {}

  Status send(int peer, const void *data, size_t bytes);
  Status receive(int peer, void *data, size_t bytes);
  /// Completes what was posted since the last wait.
  Status wait();

private:
  MPI_Comm comm_;
  int tag_;
  std::vector<MPI_Request> requests_;
};

} // namespace tessera::rt

#endif
