#include "runtime/comm/MpiMessages.h"

#include <algorithm>

namespace tessera::rt {

Status mpiStatus(int code, const char *function) {
  if (code == MPI_SUCCESS)
    return Status();
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status::error(std::string(function) + ": " + text);
}

Status MpiRound::send(int peer, const void *data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kMostMessage) {
    const int n = static_cast<int>(std::min(kMostMessage, bytes - at));
    MPI_Request request;
    TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Isend(static_cast<const std::byte *>(data) + at, n,
                                                MPI_BYTE, peer, tag_, comm_, &request),
                                      "MPI_Isend"));
    requests_.push_back(request);
  }
  return Status();
}

Status MpiRound::receive(int peer, void *data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kMostMessage) {
    const int n = static_cast<int>(std::min(kMostMessage, bytes - at));
    MPI_Request request;
    TESSERA_RETURN_IF_ERROR(mpiStatus(
        MPI_Irecv(static_cast<std::byte *>(data) + at, n, MPI_BYTE, peer, tag_, comm_, &request),
        "MPI_Irecv"));
    requests_.push_back(request);
  }
  return Status();
}

Status MpiRound::wait() {
  const int code =
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
  return mpiStatus(code, "MPI_Waitall");
}

} // namespace tessera::rt
