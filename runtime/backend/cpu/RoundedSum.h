//===- RoundedSum.h - sums that are rounded as memory holds them ---------------------------------------------===//
//
//   addRounded(plan::BF16, y, a, b, 1000);            // y[i] = a[i] + b[i] for i < 1000, rounded to BF16
//   addTree(plan::F32, y, others, 4096, 4, 1000, 2);  // y = (y + others) + (others at 4096 + others at 8192)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ROUNDEDSUM_H
#define TESSERA_RUNTIME_BACKEND_CPU_ROUNDEDSUM_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// F32 or BF16. y may be a or b.
void addRounded(plan::DType dtype, std::byte *y, const std::byte *a, const std::byte *b, int64_t elements);
/// Adds `count` arrays, a power of two, as a balanced tree, neighbours first: y, and those in `others`, `apart` bytes
/// apart, which are overwritten.
void addTree(plan::DType dtype, std::byte *y, std::byte *others, size_t apart, int64_t count, int64_t elements,
             int threads);

} // namespace tessera::rt

#endif
