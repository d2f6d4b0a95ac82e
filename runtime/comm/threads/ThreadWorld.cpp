#include "runtime/comm/threads/ThreadWorld.h"

#include "runtime/comm/Groups.h"
#include "runtime/comm/Mailbox.h"
#include "runtime/comm/threads/ThreadGroup.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace tessera::rt {
namespace {

/// The state that all ranks of a world share.
struct SharedWorld {
  explicit SharedWorld(int n) : ranks(n), barrier(n, spinsFor(n)), lists(n), boxes(n) {}

  const int ranks;
  ThreadBarrier barrier;               // of the group() calls
  std::vector<std::vector<int>> lists; // [rank]: what it named in the current group() call

  std::vector<Mailbox> boxes; // [rank]: what it has not received yet

  std::mutex mutex; // guards the members below
  std::string reason;
  std::map<int, std::shared_ptr<ThreadGroup>> forming; // by first member, during a group() call
  std::vector<std::weak_ptr<ThreadGroup>> groups;

  std::string abortReason() {
    std::lock_guard lock(mutex);
    return reason;
  }

  /// Stops all groups and wakes all receivers; if `onlyWith` is a rank, which has left, only the groups that contain it
  /// and who waits for it.
  void abort(const std::string &why, int onlyWith) {
    std::lock_guard lock(mutex);
    if (reason.empty())
      reason = why;
    barrier.abort();
    for (Mailbox &box : boxes)
      onlyWith < 0 ? box.fail(why) : box.close(onlyWith);
    std::erase_if(groups, [](const auto &group) { return group.expired(); });
    for (auto &weak : groups)
      if (std::shared_ptr<ThreadGroup> group = weak.lock())
        if (onlyWith < 0 || std::count(group->ranks.begin(), group->ranks.end(), onlyWith))
          group->abort(why);
  }
};

class ThreadWorld : public World {
public:
  ThreadWorld(std::shared_ptr<SharedWorld> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}
  ~ThreadWorld() override { shared_->abort("rank " + std::to_string(rank_) + " has left", rank_); }

  int rank() const override { return rank_; }
  int size() const override { return shared_->ranks; }
  Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks, int run) override;
  Status openChannels() override { return Status(); }
  Status send(int peer, uint32_t channel, const void *data, size_t bytes) override {
    const auto *from = static_cast<const std::byte *>(data);
    shared_->boxes[size_t(peer)].put(rank_, channel, std::vector<std::byte>(from, from + bytes));
    return Status();
  }
  Status receive(int peer, uint32_t channel, void *data, size_t bytes) override {
    return shared_->boxes[size_t(rank_)].take(peer, channel, data, bytes,
                                              [&] { return "rank " + std::to_string(peer) + " has left"; });
  }
  void abort(const std::string &reason) override {
    shared_->abort("rank " + std::to_string(rank_) + " aborted: " + reason, -1);
  }
  std::string aborted() override { return shared_->abortReason(); }

private:
  std::shared_ptr<SharedWorld> shared_;
  const int rank_;
};

Result<std::unique_ptr<Communicator>> ThreadWorld::group(const std::vector<int> &ranks, int run) {
  shared_->lists[rank_] = ranks;
  if (!shared_->barrier.arrive())
    return Status::error("making a group stopped: " + shared_->abortReason());
  // Every rank checks all lists, so that all come to the same decision.
  Status status = checkGroups(shared_->lists);
  std::shared_ptr<ThreadGroup> group;
  if (status) {
    std::lock_guard lock(shared_->mutex);
    std::shared_ptr<ThreadGroup> &entry = shared_->forming[ranks.front()];
    if (!entry) {
      entry = std::make_shared<ThreadGroup>(ranks, spinsFor(shared_->ranks));
      if (!shared_->reason.empty()) // an abort may have come after the barrier
        entry->abort(shared_->reason);
      shared_->groups.push_back(entry);
    }
    group = entry;
  }
  // The next call may reuse lists and table once all ranks have read them.
  shared_->barrier.finish();
  if (!status)
    return status;
  TESSERA_RETURN_IF_ERROR(checkRun(ranks.size(), run));
  {
    std::lock_guard lock(shared_->mutex);
    auto entry = shared_->forming.find(ranks.front());
    if (entry != shared_->forming.end() && entry->second == group)
      shared_->forming.erase(entry);
  }
  const auto me = std::find(ranks.begin(), ranks.end(), rank_);
  return createThreadCommunicator(std::move(group), int(me - ranks.begin()), run);
}

} // namespace

std::vector<std::unique_ptr<World>> createThreadWorlds(int n) {
  auto shared = std::make_shared<SharedWorld>(n);
  std::vector<std::unique_ptr<World>> worlds;
  for (int rank = 0; rank < n; ++rank)
    worlds.push_back(std::make_unique<ThreadWorld>(shared, rank));
  return worlds;
}

} // namespace tessera::rt
