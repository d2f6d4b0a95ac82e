//===- Float16Code.h - conversions of the 16-bit floating-point types, as CUDA C++ --------------------------===//
//
// What Float16.h computes, as text for generated kernels, which include no headers. In front of it u16 and u32 are
// defined as integers of so many bits.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_FLOAT16CODE_H
#define TESSERA_RUNTIME_SUPPORT_FLOAT16CODE_H

namespace tessera::rt {

inline constexpr const char *kFloat16Code = R"cuda(
__device__ inline float from_bfloat(u16 bits) { return __uint_as_float((u32)bits << 16); }
// A device has instructions for these. All make the same numbers; a NaN may have other bits.
__device__ inline u16 to_bfloat(float f) {
#ifdef __CUDA_ARCH__
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
#else
  const u32 u = __float_as_uint(f);
  const u32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (u16)((u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) | 0x40u) : rounded);
#endif
}
__device__ inline float from_half(u16 half) {
#ifdef __CUDA_ARCH__
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(half));
  return f;
#else
  const u32 sign = (u32)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const float scaled = __uint_as_float(magnitude << 13) * 5192296858534827628530496329220096.0f; // 2^112
  const u32 special = (magnitude << 13) | 0x7f800000u;
  return __uint_as_float((magnitude >= 0x7c00u ? special : __float_as_uint(scaled)) | sign);
#endif
}
__device__ inline u16 to_half(float f) {
#ifdef __CUDA_ARCH__
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
#else
  const u32 u = __float_as_uint(f);
  const u32 sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  const u32 normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const u32 subnormal = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
  u32 bits = magnitude < 0x38800000u ? subnormal : normal;
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits;
  bits = magnitude > 0x7f800000u ? 0x7e00u : bits;
  return (u16)(bits | sign);
#endif
}
)cuda";

} // namespace tessera::rt

#endif
