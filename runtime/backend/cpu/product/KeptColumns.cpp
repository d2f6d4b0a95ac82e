#include "runtime/backend/cpu/product/KeptColumns.h"

#include "runtime/backend/Parallel.h"

#include <algorithm>

namespace tessera::rt {

Result<KeptColumns> KeptColumns::of(const TensorView &b, const ProductOps &ops, int64_t n, int64_t k) {
  KeptColumns kept;
  kept.edition_ = b.edition;
  kept.matrices_ = b.elements() / (n * k);
  kept.panels_ = (n + ops.columns - 1) / ops.columns;
  kept.width_ = ops.columns;
  kept.n_ = n;
  kept.k_ = k;
  Result<HostMemory> memory =
      HostMemory::allocate(size_t(kept.matrices_ * kept.panels_ * kept.width_ * k) * sizeof(float));
  if (!memory)
    return memory.status().context("weights as products read them");
  kept.memory_ = std::move(*memory);
  return kept;
}

void KeptColumns::renew(int threads, const Pack &pack) {
  if (held_ == *edition_)
    return;
  parallelFor(threads, matrices_ * panels_, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t matrix = i / panels_, p = i % panels_, column = p * width_;
      pack(const_cast<float *>(panel(matrix, p)), matrix, column, std::min(width_, n_ - column));
    }
  });
  held_ = *edition_;
}

} // namespace tessera::rt
