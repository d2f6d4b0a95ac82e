//===- ThreadBarrier.h - a barrier that can be aborted ---------------------------------------===//
//
// A central-counter barrier over one 32-bit word: bit 0 says aborted, the other bits count
// generations. Since both live in one word, whether a given barrier was passed or aborted is one
// atomic event that all members see alike: either every member passes or every member fails. A
// collective that passed its first barrier therefore always completes (its second barrier is
// `finish`, which no abort can stop), and no member leaves while another still reads its buffers.
//
//   if (!barrier.arrive())        // everybody's arguments are published
//     return abortedError();
//   ... read other members' memory ...
//   barrier.finish();             // everybody is done reading
//
// A waiter spins briefly (only where every rank has a core), then yields, then sleeps on the word,
// so that more ranks than cores cost little and a long wait burns nothing.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_THREADS_THREADBARRIER_H
#define TESSERA_RUNTIME_COMM_THREADS_THREADBARRIER_H

#include <atomic>
#include <cstdint>

namespace tessera::rt {

class ThreadBarrier {
public:
  /// `spins` is how often a waiter looks before it yields its core.
  ThreadBarrier(int members, int spins) : members_(members), spins_(spins) {}

  /// Waits for all members. If abort() came first, it returns false on all members.
  bool arrive() { return wait(true); }
  /// Like arrive(), but no abort stops it. May only be called where every member is sure to arrive.
  void finish() { wait(false); }
  /// Makes the current and every later arrive() fail.
  void abort();
  bool aborted() const { return word_.load(std::memory_order_acquire) & 1; }

private:
  bool wait(bool stoppable);

  alignas(64) std::atomic<uint32_t> word_{0};
  alignas(64) std::atomic<int> arrived_{0};
  const int members_;
  const int spins_;
};

/// The number of spins for a world of `ranks` threads on this machine; 0 where ranks share cores.
int spinsFor(int ranks);

} // namespace tessera::rt

#endif
