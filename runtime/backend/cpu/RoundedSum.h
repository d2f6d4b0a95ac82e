//===- RoundedSum.h - sums that are rounded as memory holds them ---------------------------------------------===//
//
//   addRounded(plan::BF16, y, a, b, 1000);   // y[i] = a[i] + b[i] for i < 1000, rounded to BF16
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ROUNDEDSUM_H
#define TESSERA_RUNTIME_BACKEND_CPU_ROUNDEDSUM_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// F32 or BF16. y may be a or b.
void addRounded(plan::DType dtype, std::byte *y, const std::byte *a, const std::byte *b, int64_t elements);

} // namespace tessera::rt

#endif
