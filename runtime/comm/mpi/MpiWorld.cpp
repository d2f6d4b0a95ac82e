#include "runtime/comm/mpi/MpiWorld.h"

#include "runtime/comm/Groups.h"
#include "runtime/comm/MessageCommunicator.h"
#include "runtime/comm/mpi/MpiChannels.h"
#include "runtime/comm/mpi/MpiMessages.h"
#include "runtime/comm/mpi/MpiWatch.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <optional>

namespace tessera::rt {
namespace {

class MpiWorld : public World {
public:
  MpiWorld(int rank, int size, double peerTimeout) : rank_(rank), size_(size) {
    if (size > 1 && peerTimeout > 0)
      watch_.emplace(rank, size, peerTimeout);
  }
  ~MpiWorld() override {
    channels_.reset();
    watch_.reset();
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks, int run) override {
    // A list is sent as its length and its ranks. There is room for one rank more than a right list
    // can have, so that a list which is too long shows a rank that it names twice.
    const int width = size_ + 2;
    std::vector<int> mine(width, -1), all(size_t(width) * size_);
    mine[0] = int(std::min<size_t>(ranks.size(), size_ + 1));
    std::copy_n(ranks.begin(), mine[0], mine.begin() + 1);
    TESSERA_RETURN_IF_ERROR(mpiStatus(
        MPI_Allgather(mine.data(), width, MPI_INT, all.data(), width, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather"));
    std::vector<std::vector<int>> lists(size_);
    for (int r = 0; r < size_; ++r) {
      const int *entry = all.data() + size_t(r) * width;
      lists[r].assign(entry + 1, entry + 1 + entry[0]);
    }
    TESSERA_RETURN_IF_ERROR(checkGroups(lists));
    TESSERA_RETURN_IF_ERROR(checkRun(ranks.size(), run));
    // The lists are a partition of the world: one split makes all groups.
    const int color = *std::min_element(ranks.begin(), ranks.end());
    const auto key = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    MPI_Comm comm = MPI_COMM_NULL;
    TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Comm_split(MPI_COMM_WORLD, color, int(key), &comm), "MPI_Comm_split"));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return std::unique_ptr<Communicator>(std::make_unique<MessageCommunicator>(createMpiGroup(comm), ranks, run));
  }

  Status openChannels() override { return channels_->open(); }
  Status send(int peer, uint32_t channel, const void *data, size_t bytes) override {
    return channels_->send(peer, channel, data, bytes);
  }
  Status receive(int peer, uint32_t channel, void *data, size_t bytes) override {
    return channels_->receive(peer, channel, data, bytes);
  }

  void abort(const std::string &reason) override {
    printError("tessera: rank " + std::to_string(rank_) + " aborted: " + reason);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

private:
  const int rank_, size_;
  std::optional<MpiWatch> watch_;
  std::optional<MpiChannels> channels_ = std::make_optional<MpiChannels>();
};

} // namespace

Result<std::unique_ptr<World>> createMpiWorld(double peerTimeout) {
  int initialized = 0, provided = 0, rank = 0, size = 0;
  MPI_Initialized(&initialized);
  if (initialized)
    return Status::error("MPI is already in use in this process");
  // MPI must allow calls from several threads: abort() may come from another thread, and different
  // threads may drive groups.
  TESSERA_RETURN_IF_ERROR(
      mpiStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread"));
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return Status::error("this MPI library does not support MPI_THREAD_MULTIPLE");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return std::unique_ptr<World>(std::make_unique<MpiWorld>(rank, size, peerTimeout));
}

std::string mpiLibrary() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  // "Open MPI v4.1.4, package: Debian Open MPI, ...", or several lines with the name and version first.
  return std::string(text).substr(0, std::string(text).find_first_of(",\n"));
}

} // namespace tessera::rt
