#include "runtime/comm/threads/ThreadBarrier.h"

#include <thread>

namespace tessera::rt {
namespace {

constexpr int kYields = 200; // some tens of microseconds; then the waiter sleeps

void pauseCore() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

} // namespace

int spinsFor(int ranks) {
  const unsigned cores = std::thread::hardware_concurrency(); // respects the affinity mask on Linux
  return unsigned(ranks) <= cores ? 500 : 0;
}

void ThreadBarrier::abort() {
  word_.fetch_or(1, std::memory_order_acq_rel);
  word_.notify_all();
}

bool ThreadBarrier::wait(bool stoppable) {
  // This member has not arrived yet, so the generation cannot move under us.
  const uint32_t before = word_.load(std::memory_order_acquire);
  const uint32_t generation = before >> 1;
  if (stoppable && (before & 1))
    return false;

  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    if (stoppable) {
      // This fails if an abort came in between. Then no member passes.
      uint32_t expected = generation << 1;
      if (!word_.compare_exchange_strong(expected, expected + 2, std::memory_order_acq_rel))
        return false;
    } else {
      word_.fetch_add(2, std::memory_order_acq_rel);
    }
    word_.notify_all();
    return true;
  }

  for (int round = 0;; ++round) {
    const uint32_t now = word_.load(std::memory_order_acquire);
    if (now >> 1 != generation)
      return true;
    if (stoppable && (now & 1))
      return false;
    if (round < spins_)
      pauseCore();
    else if (round < spins_ + kYields)
      std::this_thread::yield();
    else
      word_.wait(now, std::memory_order_acquire);
  }
}

} // namespace tessera::rt
