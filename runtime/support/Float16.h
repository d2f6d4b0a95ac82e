//===- Float16.h - conversions of the 16-bit floating-point types --------------------------------===//
//
// The functions work on bit patterns and have no branches, so that loops over them vectorise. They round to nearest,
// ties to even. A NaN stays a NaN. They are always inlined, and call nothing that is not, because loops that are
// compiled for several instruction sets use them, and a function with external linkage would be that of only one.
//
//   floatToHalf(1.0f) == 0x3c00; floatToBfloat(1.0f) == 0x3f80
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_FLOAT16_H
#define TESSERA_RUNTIME_SUPPORT_FLOAT16_H

#include <cstdint>

namespace tessera::rt {

#define TESSERA_CONVERSION [[gnu::always_inline]] inline

TESSERA_CONVERSION float bfloatToFloat(uint16_t bits) { return __builtin_bit_cast(float, uint32_t{bits} << 16); }

TESSERA_CONVERSION uint16_t floatToBfloat(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  return uint16_t(nan ? ((u >> 16) | 0x40) : rounded);
}

TESSERA_CONVERSION float halfToFloat(uint16_t half) {
  // Exponent and mantissa are shifted into place, and one multiplication corrects the exponent's bias, for subnormals
  // as well. Infinity and NaN need the largest exponent instead.
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, magnitude = half & 0x7fffu;
  const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  const uint32_t bits = magnitude >= 0x7c00u ? special : __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, bits | sign);
}

TESSERA_CONVERSION uint16_t floatToHalf(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  const uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  // Normal results are rounded as integers, after the exponent's bias is corrected.
  const uint32_t normal = (magnitude - 0x38000000u + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal results: adding 0.5 aligns the mantissa, so that the processor rounds it.
  const uint32_t subnormal = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  uint32_t bits = magnitude < 0x38800000u ? subnormal : normal;
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits; // rounds to infinity
  bits = magnitude > 0x7f800000u ? 0x7e00u : bits;  // NaN
  return uint16_t(bits | sign);
}

#undef TESSERA_CONVERSION

} // namespace tessera::rt

#endif
