#include "runtime/comm/mpi/MpiChannels.h"

#include "runtime/comm/Mailbox.h"
#include "runtime/comm/mpi/MpiMessages.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// MPI counts in `int`. A message is as many full parts as it has, and one that is shorter and may be empty. So its
/// size is known from its parts.
constexpr size_t kPart = 1 << 30;

} // namespace

MpiChannels::~MpiChannels() {
  if (comm_ == MPI_COMM_NULL)
    return;
  for (Sent &sent : sent_)
    MPI_Waitall(int(sent.requests.size()), sent.requests.data(), MPI_STATUSES_IGNORE);
  MPI_Comm_free(&comm_);
}

Status MpiChannels::open() {
  if (comm_ != MPI_COMM_NULL)
    return Status();
  TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  return Status();
}

Status MpiChannels::freeSent() {
  for (auto it = sent_.begin(); it != sent_.end();) {
    int complete = 0;
    TESSERA_RETURN_IF_ERROR(mpiStatus(
        MPI_Testall(int(it->requests.size()), it->requests.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Testall"));
    it = complete ? sent_.erase(it) : std::next(it);
  }
  return Status();
}

Status MpiChannels::send(int peer, uint32_t channel, const void *data, size_t bytes) {
  TESSERA_RETURN_IF_ERROR(freeSent());
  Sent &sent = sent_.emplace_back();
  const auto *from = static_cast<const std::byte *>(data);
  sent.bytes.assign(from, from + bytes);
  for (size_t at = 0; at <= bytes; at += kPart)
    TESSERA_RETURN_IF_ERROR(
        mpiStatus(MPI_Isend(sent.bytes.data() + at, int(std::min(kPart, bytes - at)), MPI_BYTE, peer, int(channel),
                            comm_, &sent.requests.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Isend"));
  return Status();
}

Status MpiChannels::receive(int peer, uint32_t channel, void *data, size_t bytes) {
  TESSERA_RETURN_IF_ERROR(freeSent());
  size_t at = 0;
  for (int count = int(kPart); count == int(kPart); at += size_t(count)) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Mprobe(peer, int(channel), comm_, &message, &status), "MPI_Mprobe"));
    TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
    std::byte *to = static_cast<std::byte *>(data) + at;
    if (at + size_t(count) > bytes) { // taken all the same, so that the channel's next message is the next
      refused_.resize(size_t(count));
      to = refused_.data();
    }
    TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Mrecv(to, count, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv"));
  }
  return checkMessageSize(peer, channel, at, bytes);
}

} // namespace tessera::rt
