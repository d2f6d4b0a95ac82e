// The text that every generated kernel begins with.
#include "runtime/backend/cuda/text/Source.h"

namespace tessera::rt::cuda {

// Meanings are those of reference/Scalar.h, Philox.h and support/Float16.h.
static const char *const kPrelude = R"cuda(
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef signed char s8;
typedef unsigned char u8;

template <typename T> __device__ inline T op_add(T a, T b) { return a + b; }
__device__ inline i64 op_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
template <typename T> __device__ inline T op_sub(T a, T b) { return a - b; }
__device__ inline i64 op_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
template <typename T> __device__ inline T op_mul(T a, T b) { return a * b; }
__device__ inline i64 op_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
template <typename T> __device__ inline T op_div(T a, T b) { return a / b; }
__device__ inline i64 op_div(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b; }
__device__ inline float op_mod(float a, float b) {
  float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline double op_mod(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline i64 op_mod(i64 a, i64 b) {
  if (b == 0 || b == -1)
    return 0;
  i64 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline float op_pow(float a, float b) { return powf(a, b); }
__device__ inline double op_pow(double a, double b) { return pow(a, b); }
__device__ inline i64 op_pow(i64 a, i64 b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  u64 result = 1, base = (u64)a;
  for (; b; b >>= 1, base *= base)
    if (b & 1)
      result *= base;
  return (i64)result;
}
template <typename T> __device__ inline T op_max(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ inline T op_min(T a, T b) { return a < b || a != a ? a : b; }
__device__ inline float op_neg(float a) { return -a; }
__device__ inline double op_neg(double a) { return -a; }
__device__ inline i64 op_neg(i64 a) { return (i64)(0 - (u64)a); }
__device__ inline float op_abs(float a) { return fabsf(a); }
__device__ inline double op_abs(double a) { return fabs(a); }
__device__ inline i64 op_abs(i64 a) { return a < 0 ? op_neg(a) : a; }
template <typename T> __device__ inline T op_sign(T a) {
  return a > 0 ? (T)1 : a < 0 ? (T)-1 : a == 0 ? (T)0 : a;
}
template <typename T> __device__ inline T op_relu(T a) { return a > 0 || a != a ? a : (T)0; }
__device__ inline float op_exp(float a) { return expf(a); }
__device__ inline double op_exp(double a) { return exp(a); }
__device__ inline float op_expm1(float a) { return expm1f(a); }
__device__ inline double op_expm1(double a) { return expm1(a); }
__device__ inline float op_log(float a) { return logf(a); }
__device__ inline double op_log(double a) { return log(a); }
__device__ inline float op_log1p(float a) { return log1pf(a); }
__device__ inline double op_log1p(double a) { return log1p(a); }
__device__ inline float op_sqrt(float a) { return sqrtf(a); }
__device__ inline double op_sqrt(double a) { return sqrt(a); }
template <typename T> __device__ inline T op_rsqrt(T a) { return (T)1 / op_sqrt(a); }
template <typename T> __device__ inline T op_reciprocal(T a) { return (T)1 / a; }
__device__ inline float op_tanh(float a) { return tanhf(a); }
__device__ inline double op_tanh(double a) { return tanh(a); }
template <typename T> __device__ inline T op_sigmoid(T a) { return (T)1 / ((T)1 + op_exp(-a)); }
__device__ inline float op_erf(float a) { return erff(a); }
__device__ inline double op_erf(double a) { return erf(a); }
__device__ inline float op_sin(float a) { return sinf(a); }
__device__ inline double op_sin(double a) { return sin(a); }
__device__ inline float op_cos(float a) { return cosf(a); }
__device__ inline double op_cos(double a) { return cos(a); }
__device__ inline float op_atan(float a) { return atanf(a); }
__device__ inline double op_atan(double a) { return atan(a); }
__device__ inline float op_floor(float a) { return floorf(a); }
__device__ inline double op_floor(double a) { return floor(a); }
__device__ inline i64 op_floor(i64 a) { return a; }
__device__ inline float op_ceil(float a) { return ceilf(a); }
__device__ inline double op_ceil(double a) { return ceil(a); }
__device__ inline i64 op_ceil(i64 a) { return a; }
__device__ inline float op_round(float a) { return rintf(a); }
__device__ inline double op_round(double a) { return rint(a); }
__device__ inline i64 op_round(i64 a) { return a; }

template <typename T> __device__ inline i64 to_int(T x) {
  if (x != x)
    return 0;
  if (x >= (T)9223372036854775808.0)
    return 9223372036854775807LL;
  if (x < (T)-9223372036854775808.0)
    return -9223372036854775807LL - 1;
  return (i64)x;
}
__device__ inline i64 to_int(i64 x) { return x; }

__device__ inline float from_bfloat(u16 bits) { return __uint_as_float((u32)bits << 16); }
__device__ inline u16 to_bfloat(float f) {
  const u32 u = __float_as_uint(f);
  const u32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (u16)((u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) | 0x40u) : rounded);
}
__device__ inline float from_half(u16 half) {
  const u32 sign = (u32)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const float scaled = __uint_as_float(magnitude << 13) * 5192296858534827628530496329220096.0f; // 2^112
  const u32 special = (magnitude << 13) | 0x7f800000u;
  return __uint_as_float((magnitude >= 0x7c00u ? special : __float_as_uint(scaled)) | sign);
}
__device__ inline u16 to_half(float f) {
  const u32 u = __float_as_uint(f);
  const u32 sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  const u32 normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const u32 subnormal = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
  u32 bits = magnitude < 0x38800000u ? subnormal : normal;
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits;
  bits = magnitude > 0x7f800000u ? 0x7e00u : bits;
  return (u16)(bits | sign);
}

__device__ inline float uniform(u64 key, u64 index, u64 step) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  u32 c0 = (u32)index, c1 = (u32)(index >> 32), c2 = (u32)step, c3 = (u32)(step >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    const u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1;
    c3 = (u32)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (float)(c0 >> 8) * 5.9604644775390625e-8f; // 2^-24
}
)cuda";

const std::string &prelude() {
  static const std::string text = kPrelude;
  return text;
}

} // namespace tessera::rt::cuda
