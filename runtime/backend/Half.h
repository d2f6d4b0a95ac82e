//===- Half.h - the 16-bit floating-point types in memory
//---------------------------------------------===//
//
// F16 (IEEE binary16) and BF16 are storage types: kernels compute in F32.
//
//   toFloat(toBfloat16(1.0f)) == 1.0f; toBfloat16 rounds to nearest, ties to even, keeps NaN
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_HALF_H
#define TESSERA_RUNTIME_BACKEND_HALF_H

#include <bit>
#include <cstdint>

namespace tessera::rt {

struct Half {
  uint16_t bits = 0;
};
struct Bfloat16 {
  uint16_t bits = 0;
};

inline float toFloat(Bfloat16 x) { return std::bit_cast<float>(uint32_t(x.bits) << 16); }

inline Bfloat16 toBfloat16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u)
    return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

inline float toFloat(Half x) {
  uint32_t sign = uint32_t(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Shifting puts the exponent 112 too low; multiplying mends it, subnormal numbers too.
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}

inline Half toHalf(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
  if (rest > 0x7f800000u)
    return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (rest >= 0x477ff000u) // rounds to 65536 or more
    return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (rest < 0x38800000u) { // subnormal: adding 0.5 aligns the last bit and rounds
    uint32_t sum = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f);
    return {static_cast<uint16_t>(sign | (sum - 0x3f000000u))};
  }
  uint32_t rounded = rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u);
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

} // namespace tessera::rt

#endif
