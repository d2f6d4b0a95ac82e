//===- Half.h - the 16-bit floating-point types in memory ----------------------------------------===//
//
// F16 (IEEE binary16) and BF16 are storage types: kernels compute in F32. Conversions: support/Float16.h.
//
//   toFloat(toBfloat16(1.0f)) == 1.0f
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_HALF_H
#define TESSERA_RUNTIME_BACKEND_HALF_H

#include "runtime/support/Float16.h"

namespace tessera::rt {

struct Half {
  uint16_t bits = 0;
};
struct Bfloat16 {
  uint16_t bits = 0;
};

inline float toFloat(Bfloat16 x) { return bfloatToFloat(x.bits); }
inline Bfloat16 toBfloat16(float f) { return {floatToBfloat(f)}; }
inline float toFloat(Half x) { return halfToFloat(x.bits); }
inline Half toHalf(float f) { return {floatToHalf(f)}; }

} // namespace tessera::rt

#endif
