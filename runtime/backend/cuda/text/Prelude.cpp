// The text that every generated kernel begins with.
#include "runtime/backend/cuda/text/Source.h"
#include "runtime/support/Float16Code.h"
#include "runtime/support/Scalar.h"

namespace tessera::rt::cuda {

// Philox.h and support/Float16Code.h say what these mean; the elementwise operators come from Elementwise.def.
static const char *const kTypes = R"cuda(
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef signed char s8;
typedef unsigned char u8;

__device__ inline u64 bits(i64 a) { return (u64)a; }
__device__ inline i64 wrap(u64 a) { return (i64)a; }
template <typename T> __device__ inline T like(T r, T b) { return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
__device__ inline i64 powerOf(i64 a, i64 b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  u64 result = 1, base = (u64)a;
  for (; b; b >>= 1, base *= base)
    if (b & 1)
      result *= base;
  return (i64)result;
}
)cuda";

static const char *const kConversions = R"cuda(
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
)cuda";

static const char *const kRandom = R"cuda(
__device__ inline float uniform_word(u64 key, u64 counter, u32 word, u64 step) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = (u32)step, c3 = (u32)(step >> 32);
#pragma unroll
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
  const u32 found = word == 0u ? c0 : word == 1u ? c1 : word == 2u ? c2 : c3;
  return (float)(found >> 8) * 5.9604644775390625e-8f; // 2^-24
}
__device__ inline float uniform(u64 key, u64 index, u64 step) {
  return uniform_word(key, index >> 2, (u32)index & 3u, step);
}
)cuda";

// erf in F32. CUDA's chooses each coefficient of one polynomial by where the operand lies, which costs more than two
// polynomials and one choice. Below 31/32 the result is a + a P(a a), so that small numbers keep their digits; from
// there on 1 - 2^B(|a|), which is at most 1. P and B have the least maximal errors (Lawson's weights on Chebyshev's
// points): P of the result, relative, 2.7e-8; B of the result up to 4, 1.8e-8. With all roundings the result is off by
// at most 1.2e-7, and by 2 units in the last place. Beyond 4 B falls to minus infinity, as its last coefficient says.
static const char *const kErf = R"cuda(
__device__ inline float power_of_two(float a) {
#ifdef __CUDA_ARCH__
  float power; // off by 2^-22 of it; 0 where it would be subnormal
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(a));
  return power;
#else
  return exp2f(a);
#endif
}
// a > b ? c : d without a branch, which the compiler would make: neighbouring threads would go through both of its ways
// one after the other.
__device__ inline float if_greater(float a, float b, float c, float d) {
#ifdef __CUDA_ARCH__
  float r;
  asm("{ .reg .pred p; setp.gt.f32 p, %1, %2; selp.f32 %0, %3, %4, p; }" : "=f"(r) : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
#else
  return a > b ? c : d;
#endif
}
__device__ inline float math_erf(float a) {
  const float s = a * a, b = fabsf(a);
  float p = -5.775804347e-04f, q = -1.704595654e-03f;
  p = fmaf(p, s, 4.949425703e-03f);
  p = fmaf(p, s, -2.673572322e-02f);
  p = fmaf(p, s, 1.128093516e-01f);
  p = fmaf(p, s, -3.761240688e-01f);
  p = fmaf(p, s, 1.283791361e-01f);
  q = fmaf(q, b, 2.168207638e-02f);
  q = fmaf(q, b, -1.290110180e-01f);
  q = fmaf(q, b, -9.424756073e-01f);
  q = fmaf(q, b, -1.613441757e+00f);
  q = fmaf(q, b, -3.465671129e-03f);
  return if_greater(b, 0.96875f, copysignf(1.0f - power_of_two(q), a), fmaf(a, p, a));
}
)cuda";

namespace {

std::string parameters(const std::string &type, int operands) {
  return operands == 1 ? type + " a" : type + " a, " + type + " b";
}

/// A function of the C library, for float and double.
std::string mathFunction(const std::string &name, int operands) {
  const std::string given = operands == 1 ? "(a)" : "(a, b)", begin = "__device__ inline ";
  const std::string narrow = name == "erf" ? kErf
                                           : begin + "float math_" + name + "(" + parameters("float", operands) +
                                                 ") { return " + name + "f" + given + "; }\n";
  return narrow + begin + "double math_" + name + "(" + parameters("double", operands) + ") { return " + name + given +
         "; }\n";
}

/// One row of Elementwise.def as op_name, for the types that it takes.
std::string elementwise(const std::string &name, ElementwiseKind kind, int operands, const std::string &real,
                        const std::string &whole) {
  using Kind = ElementwiseKind;
  if (kind == Kind::Select) // of two types, written where it is used
    return "";
  std::string text;
  auto add = [&](const std::string &type, const std::string &expression) {
    text += "__device__ inline " + (kind == Kind::Compare ? "i64" : type) + " op_" + name + "(" +
            parameters(type, operands) + ") { typedef " + type + " T; return (" +
            (kind == Kind::Compare ? "i64" : "T") + ")(" + expression + "); }\n";
  };
  if (kind != Kind::Logic && kind != Kind::LogicUnary && kind != Kind::Whole) {
    add("float", real);
    add("double", real);
  }
  if (kind != Kind::FloatUnary)
    add("i64", whole);
  return text;
}

} // namespace

const std::string &prelude() {
  static const std::string text = [] {
    std::string all = kTypes;
#define TESSERA_MATH(F, OPERANDS, CALLED) all += mathFunction(#F, OPERANDS);
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, REAL, WHOLE, ...)                                              \
  all += elementwise(TEXT, ElementwiseKind::KIND, OPERANDS, #REAL, #WHOLE);
#include "runtime/support/Elementwise.def"
    return all + kConversions + kFloat16Code + kRandom;
  }();
  return text;
}

} // namespace tessera::rt::cuda
