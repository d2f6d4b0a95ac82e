//===- KeptColumns.h - a matrix that stays, as products read it ----------------------------------------------===//
//
// The columns of B as ProductOps::packColumns lays them, `ops.columns` at a time with all their terms: a panel. They
// are made once for as long as nobody writes B (TensorView::edition), so that products copy nothing.
//
//   Result<KeptColumns> kept = KeptColumns::of(b, ops, n, k);
//   kept->renew(threads, [&](float *to, int64_t matrix, int64_t column, int64_t count) { ... });   // before each run
//   kept->panel(matrix, p);                                                          // [k][ops.columns]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_KEPTCOLUMNS_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_KEPTCOLUMNS_H

#include "runtime/backend/HostPlan.h"
#include "runtime/backend/Kernel.h"
#include "runtime/backend/cpu/product/ProductOps.h"

#include <functional>
#include <optional>

namespace tessera::rt {

class KeptColumns {
public:
  /// Writes the panel of `count` columns that begins with number `column`.
  using Pack = std::function<void(float *to, int64_t matrix, int64_t column, int64_t count)>;

  /// Of matrices of k terms by n columns, whose edition `b` tells.
  static Result<KeptColumns> of(const TensorView &b, const ProductOps &ops, int64_t n, int64_t k);
  /// Has all panels packed if B was written since they were.
  void renew(int threads, const Pack &pack);

  int64_t panels() const { return panels_; } // of a matrix
  const float *panel(int64_t matrix, int64_t p) const {
    return reinterpret_cast<const float *>(memory_.data()) + (matrix * panels_ + p) * width_ * k_;
  }
  size_t bytes() const { return memory_.size(); }

private:
  HostMemory memory_;
  const uint64_t *edition_ = nullptr;
  std::optional<uint64_t> held_;
  int64_t matrices_ = 0, panels_ = 0, width_ = 0, n_ = 0, k_ = 0;
};

} // namespace tessera::rt

#endif
