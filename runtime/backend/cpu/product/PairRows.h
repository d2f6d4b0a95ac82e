//===- PairRows.h - rows of BF16 as products of pairs read them -------------------------------------------===//
//
// ProductOps.h's pairOps() multiply pairs of terms. Terms that lie side by side are pairs as they are; those of
// different rows are put side by side here. Rows of F32 become BF16.
//
//   rows->interleave(to, 32, v, stride, 197, 32);   // 99 pairs of terms by 32 columns, the last term with a 0
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_PAIRROWS_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_PAIRROWS_H

#include <cstdint>

namespace tessera::rt {

struct PairRows {
  /// to[term / 2 * toStride + i] = the pair (from[term * fromStride + i], from[(term + 1) * fromStride + i]) for even
  /// terms and i < n; where terms are odd the last one has 0 beside it.
  void (*interleave)(float *to, int64_t toStride, const uint16_t *from, int64_t fromStride, int64_t terms, int64_t n);
  /// to[i] = from[i] * scale for i < n, and 0 up to a pair.
  void (*narrow)(uint16_t *to, const float *from, float scale, int64_t n);
  /// x[i] *= scale for i < n.
  void (*multiply)(float *x, float scale, int64_t n);
  /// The sum of a[i] * b[i].
  float (*dot)(const uint16_t *a, const uint16_t *b, int64_t n);
};

/// Null where pairOps() is.
const PairRows *pairRows();

} // namespace tessera::rt

#endif
