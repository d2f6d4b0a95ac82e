//===- Parallel.h - loops over the threads of one rank ----------------------------------------===//
//
// parallelFor(threads, n, body) calls body(begin, end) on disjoint ranges that cover [0, n), one
// per thread, cut evenly: the cut depends on (threads, n) alone. OpenMP underneath, so that own
// kernels and oneDNN share one pool of threads per rank.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_PARALLEL_H
#define TESSERA_RUNTIME_BACKEND_PARALLEL_H

#include <cstdint>

namespace tessera::rt {

/// Bytes between what one thread writes in scratch memory and what another one does: a page. Cores fetch ahead as far
/// as a page goes, and so take lines away from the thread whose memory comes next: a loop took twice as long.
inline constexpr int64_t kThreadsApart = 4096;

template <typename F> void parallelFor(int threads, int64_t n, const F &body) {
  if (threads <= 1 || n <= 1) {
    if (n > 0)
      body(int64_t(0), n);
    return;
  }
  int64_t parts = threads < n ? threads : n;
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (int64_t p = 0; p < parts; ++p)
    body(n * p / parts, n * (p + 1) / parts);
}

} // namespace tessera::rt

#endif
