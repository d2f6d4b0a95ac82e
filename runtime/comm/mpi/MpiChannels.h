//===- MpiChannels.h - messages between two ranks by MPI ----------------------------------------------===//
//
// A channel is a tag of a communicator of its own. A message is copied and sent by MPI_Isend; its memory is freed by a
// later call. MPI moves large messages only while this process is inside of MPI, so a receiver may wait until the
// sender next communicates.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPI_MPICHANNELS_H
#define TESSERA_RUNTIME_COMM_MPI_MPICHANNELS_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <list>
#include <mpi.h>
#include <vector>

namespace tessera::rt {

class MpiChannels {
public:
  MpiChannels() = default;
  MpiChannels(const MpiChannels &) = delete;
  MpiChannels &operator=(const MpiChannels &) = delete;
  /// Waits until everything that was sent is received or on its way.
  ~MpiChannels();

  /// Called by all ranks.
  Status open();
  Status send(int peer, uint32_t channel, const void *data, size_t bytes);
  Status receive(int peer, uint32_t channel, void *data, size_t bytes);

private:
  struct Sent {
    std::vector<std::byte> bytes;
    std::vector<MPI_Request> requests;
  };
  Status freeSent();

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::list<Sent> sent_; // not known to be complete
  std::vector<std::byte> refused_;
};

} // namespace tessera::rt

#endif
