//===- InParallel.h - independent pieces of work ---------------------------------------------------===//
//
//   inParallel(threads, list.size(), [&](size_t i) { made[i] = make(list[i]); });
//   inParallel(threads, list.size(), [&](size_t i, size_t thread) { made[i] = make(list[i], tools[thread]); });
//
// A thread takes the next piece when it is done with one, so pieces should not depend on who makes them. Threads are
// numbered from 0, the caller. Returns once all are done. Where the system gives no thread, the caller does them alone.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_INPARALLEL_H
#define TESSERA_STRATEGIES_SPACE_INPARALLEL_H

#include <algorithm>
#include <atomic>
#include <future>
#include <type_traits>
#include <vector>

namespace tessera::strategies {

template <typename Work> void inParallel(int threads, size_t count, Work work) {
  std::atomic<size_t> next = 0;
  auto run = [&](size_t thread) {
    for (size_t i; (i = next++) < count;)
      if constexpr (std::is_invocable_v<Work, size_t, size_t>)
        work(i, thread);
      else
        work(i);
  };
  std::vector<std::future<void>> others;
  for (size_t k = 1; k < std::min(size_t(std::max(threads, 1)), count); ++k)
    others.push_back(std::async(std::launch::async | std::launch::deferred, run, k));
  run(0);
  for (const std::future<void> &other : others)
    other.wait();
}

} // namespace tessera::strategies

#endif
