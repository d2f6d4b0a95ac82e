//===- ThreadGroup.h - what the threads of one group share -----------------------------------===//
//
// Internal to the thread transport. Every member owns two slots and uses them in turn, call by
// call: a member can be at most one call ahead of another (it cannot pass the barrier of its next
// call before all have arrived there), so the slot it fills is never one that somebody still reads.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_THREADS_THREADGROUP_H
#define TESSERA_RUNTIME_COMM_THREADS_THREADGROUP_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/threads/ThreadBarrier.h"

#include <mutex>

namespace tessera::rt {

/// Messages up to this size per member are copied through the slots.
inline constexpr size_t kSmallMessage = 4096;

struct alignas(64) ThreadSlot {
  Call call;
  const void *in = nullptr;
  void *out = nullptr;
  const std::vector<Transfer> *sends = nullptr;
  const std::vector<Transfer> *receives = nullptr;
  std::span<const Rows> tensors; // of a gather or scatter
  std::string error;             // found after the first barrier, read after the second
  alignas(64) std::byte small[kSmallMessage];
};

struct ThreadGroup {
  ThreadGroup(std::vector<int> worldRanks, int spins)
      : ranks(std::move(worldRanks)), barrier(int(ranks.size()), spins) {}

  /// Stops the group. Only the first reason counts.
  void abort(const std::string &why) {
    {
      std::lock_guard lock(mutex);
      if (reason.empty())
        reason = why;
    }
    barrier.abort();
  }
  std::string abortReason() {
    std::lock_guard lock(mutex);
    return reason;
  }

  const std::vector<int> ranks; // world ranks, in group order
  ThreadBarrier barrier;
  // [parity of the call][member]
  std::vector<ThreadSlot> slots[2] = {std::vector<ThreadSlot>(ranks.size()), std::vector<ThreadSlot>(ranks.size())};
  std::mutex mutex;
  std::string reason;
};

/// Member `rank` (index in the group) of a group. `run`: see World::group.
std::unique_ptr<Communicator> createThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank, int run);

} // namespace tessera::rt

#endif
