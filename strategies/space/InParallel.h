//===- InParallel.h - independent pieces of work ---------------------------------------------------===//
//
//   inParallel(threads, list.size(), [&](size_t i) { made[i] = make(list[i]); });
//
// A thread takes the next piece when it is done with one, so pieces should not depend on who makes them. Returns once
// all are done. Where the system gives no thread, the caller does them alone.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_INPARALLEL_H
#define TESSERA_STRATEGIES_SPACE_INPARALLEL_H

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

namespace tessera::strategies {

template <typename Work> void inParallel(int threads, size_t count, Work work) {
  std::atomic<size_t> next = 0;
  auto run = [&] {
    for (size_t i; (i = next++) < count;)
      work(i);
  };
  std::vector<std::future<void>> others;
  for (size_t k = 1; k < std::min(size_t(std::max(threads, 1)), count); ++k)
    others.push_back(std::async(std::launch::async | std::launch::deferred, run));
  run();
  for (const std::future<void> &other : others)
    other.wait();
}

} // namespace tessera::strategies

#endif
