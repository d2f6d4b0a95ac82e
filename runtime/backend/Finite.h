//===- Finite.h - NaNs and infinities among many numbers -----------------------------------------===//
//
//   const float x[3] = {1, INFINITY, 2};
//   NonFinite found = nonFinite(x, plan::F32, 3);        // found.infinity; not found.nan
//
// The function runs at the speed of memory. Types that are not floating-point have neither.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_FINITE_H
#define TESSERA_RUNTIME_BACKEND_FINITE_H

#include "runtime/plan/plan.pb.h"

#include <cstddef>
#include <cstdint>

namespace tessera::rt {

struct NonFinite {
  bool nan = false, infinity = false;
  explicit operator bool() const { return nan || infinity; }
};

/// Where there are both, `nan` is set and `infinity` may be.
NonFinite nonFinite(const void *data, plan::DType type, size_t count, int threads = 1);

} // namespace tessera::rt

#endif
