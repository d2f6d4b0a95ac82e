//===- InParallel.h - independent pieces of work ---------------------------------------------------===//
//
//   inParallel(threads, list.size(), [&](size_t i) { made[i] = make(list[i]); });
//   inParallel(threads, list.size(), [&](size_t i, size_t thread) { made[i] = make(list[i], tools[thread]); });
//
//   PiecesBeside pieces(threads, list.size(), [&](size_t i, size_t) { made[i] = make(list[i]); });
//   ... // on this thread
//   pieces.finish();
//
// A thread takes the next piece when it is done with one, so pieces should not depend on who makes them. Threads are
// numbered from 0, the caller. Returns once all are done. Where the system gives no thread, the caller does them alone.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_INPARALLEL_H
#define TESSERA_STRATEGIES_SPACE_INPARALLEL_H

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <type_traits>
#include <vector>

namespace tessera::strategies {

/// How std::async makes something beside the caller that has so many threads: on another thread, or when it is asked
/// for, where there is no other or the system gives none.
inline std::launch besideCaller(int threads) {
  return std::launch::deferred | (threads > 1 ? std::launch::async : std::launch::deferred);
}

/// Pieces that others make while the caller does something else.
class PiecesBeside {
public:
  /// `threads`: of others, at most. `work` gets the numbers of a piece and of a thread.
  PiecesBeside(int threads, size_t count, std::function<void(size_t, size_t)> work)
      : count_(count), work_(std::move(work)) {
    for (size_t k = 1; k <= std::min(size_t(std::max(threads, 0)), count); ++k)
      others_.push_back(std::async(std::launch::async | std::launch::deferred, [this, k] { run(k); }));
  }
  /// Leaves out those that no thread has begun.
  ~PiecesBeside() {
    next_ = count_;
    wait();
  }
  PiecesBeside(const PiecesBeside &) = delete;
  PiecesBeside &operator=(const PiecesBeside &) = delete;

  /// Takes part, and returns once all are done.
  void finish() {
    run(0);
    wait();
  }

private:
  void run(size_t thread) {
    for (size_t i; (i = next_++) < count_;)
      work_(i, thread);
  }
  void wait() {
    for (const std::future<void> &other : others_)
      other.wait();
  }

  const size_t count_;
  const std::function<void(size_t, size_t)> work_;
  std::atomic<size_t> next_ = 0;
  std::vector<std::future<void>> others_;
};

template <typename Work> void inParallel(int threads, size_t count, Work work) {
  const int others = int(std::min(size_t(std::max(threads, 1)), count)) - 1;
  PiecesBeside(others, count, [&](size_t i, size_t thread) {
    if constexpr (std::is_invocable_v<Work, size_t, size_t>)
      work(i, thread);
    else
      work(i);
  }).finish();
}

} // namespace tessera::strategies

#endif
