#include "runtime/comm/mpi/MpiMessages.h"

#include <algorithm>
#include <vector>

namespace tessera::rt {
namespace {

/// Longer messages are sent in parts of kMostMessage bytes, since MPI counts in `int`.
constexpr size_t kMostMessage = 1 << 30;

class MpiRound : public MessageRound {
public:
  MpiRound(MPI_Comm comm, int tag) : comm_(comm), tag_(tag) {}

  Status send(int peer, const void *data, size_t bytes) override {
    for (size_t at = 0; at < bytes; at += kMostMessage) {
      const int n = int(std::min(kMostMessage, bytes - at));
      TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Isend(static_cast<const std::byte *>(data) + at, n, MPI_BYTE, peer, tag_,
                                                  comm_, &requests_.emplace_back(MPI_REQUEST_NULL)),
                                        "MPI_Isend"));
    }
    return Status();
  }
  Status receive(int peer, void *data, size_t bytes) override {
    for (size_t at = 0; at < bytes; at += kMostMessage) {
      const int n = int(std::min(kMostMessage, bytes - at));
      TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Irecv(static_cast<std::byte *>(data) + at, n, MPI_BYTE, peer, tag_, comm_,
                                                  &requests_.emplace_back(MPI_REQUEST_NULL)),
                                        "MPI_Irecv"));
    }
    return Status();
  }
  Status wait() override {
    const int code = MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    return mpiStatus(code, "MPI_Waitall");
  }

private:
  MPI_Comm comm_;
  int tag_;
  std::vector<MPI_Request> requests_;
};

class MpiGroup : public MessageGroup {
public:
  explicit MpiGroup(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~MpiGroup() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized)
      MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<MessageRound> round(int tag) override { return std::make_unique<MpiRound>(comm_, tag); }
  Status allGather(const void *in, void *out, size_t bytes) override {
    const int n = int(bytes);
    return mpiStatus(MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, comm_), "MPI_Allgather");
  }
  Status broadcast(void *data, size_t bytes, int root) override {
    for (size_t at = 0; at < bytes; at += kMostMessage)
      TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Bcast(static_cast<std::byte *>(data) + at,
                                                  int(std::min(kMostMessage, bytes - at)), MPI_BYTE, root, comm_),
                                        "MPI_Bcast"));
    return Status();
  }

private:
  MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
};

} // namespace

Status mpiStatus(int code, const char *function) {
  if (code == MPI_SUCCESS)
    return Status();
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status::error(std::string(function) + ": " + text);
}

std::unique_ptr<MessageGroup> createMpiGroup(MPI_Comm comm) { return std::make_unique<MpiGroup>(comm); }

} // namespace tessera::rt
