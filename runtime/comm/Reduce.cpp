#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tessera::rt {
namespace {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

// Branch-free conversions, so that the loops over them vectorise on any x86-64 or Arm.

float widen(BFloat v) { return std::bit_cast<float>(uint32_t{v.bits} << 16); }

BFloat narrow(float f, BFloat) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16; // to nearest, ties to even
  const bool nan = (u & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>(nan ? ((u >> 16) | 0x40) : rounded)};
}

float widen(Half v) {
  // Shift exponent and mantissa into place and let one multiplication rebase the exponent: it also
  // makes subnormals right. Infinity and NaN need the largest exponent.
  const uint32_t sign = uint32_t{v.bits & 0x8000u} << 16;
  const uint32_t magnitude = v.bits & 0x7fffu;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  const uint32_t bits = magnitude >= 0x7c00u ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

Half narrow(float f, Half) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  // Normal results: rebase the exponent and round to nearest even in integers.
  const uint32_t normal = (magnitude - 0x38000000u + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal results: adding 0.5 aligns the mantissa so that the float unit rounds it.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t bits = magnitude < 0x38800000u ? subnormal : normal;
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits; // rounds to infinity
  bits = magnitude > 0x7f800000u ? 0x7e00u : bits;  // NaN
  return {static_cast<uint16_t>(bits | sign)};
}

/// How a type is accumulated: Acc, and the ways there and back.
template <typename T> struct Traits {
  using Acc = T;
  static Acc load(T v) { return v; }
  static T store(Acc a) { return a; }
};
template <> struct Traits<Half> {
  using Acc = float;
  static float load(Half v) { return widen(v); }
  static Half store(float a) { return narrow(a, Half{}); }
};
template <> struct Traits<BFloat> {
  using Acc = float;
  static float load(BFloat v) { return widen(v); }
  static BFloat store(float a) { return narrow(a, BFloat{}); }
};
template <> struct Traits<Bool> {
  using Acc = uint8_t;
  static uint8_t load(Bool v) { return v.value != 0; }
  static Bool store(uint8_t a) { return {a}; }
};

struct Sum {
  template <typename A> static A apply(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>; // wraps instead of being undefined
      return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Max {
  template <typename A> static A apply(A a, A b) {
    if constexpr (std::is_floating_point_v<A>)
      return (a > b) | (a != a) ? a : b;
    else
      return a > b ? a : b;
  }
};
struct Min {
  template <typename A> static A apply(A a, A b) {
    if constexpr (std::is_floating_point_v<A>)
      return (a < b) | (a != a) ? a : b;
    else
      return a < b ? a : b;
  }
};

template <typename T, typename Op>
void reduceTyped(const void *const *in, int n, void *const *out, int outs, size_t count) {
  using Tr = Traits<T>;
  using Acc = typename Tr::Acc;
  constexpr size_t kBlock = 16384 / sizeof(Acc); // half of a first-level cache, inputs beside it
  alignas(64) Acc acc[kBlock];
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t m = std::min(kBlock, count - at);
    const T *a = static_cast<const T *>(in[0]) + at;
    if (n == 1) {
      for (size_t i = 0; i < m; ++i)
        acc[i] = Tr::load(a[i]);
    } else {
      const T *b = static_cast<const T *>(in[1]) + at;
      for (size_t i = 0; i < m; ++i)
        acc[i] = Op::apply(Tr::load(a[i]), Tr::load(b[i]));
    }
    for (int k = 2; k < n; ++k) {
      const T *c = static_cast<const T *>(in[k]) + at;
      for (size_t i = 0; i < m; ++i)
        acc[i] = Op::apply(acc[i], Tr::load(c[i]));
    }
    // Outputs only now: one of them may be an input.
    if constexpr (std::is_same_v<T, Acc>) {
      for (int k = 0; k < outs; ++k)
        std::memcpy(static_cast<T *>(out[k]) + at, acc, m * sizeof(T));
    } else {
      T *first = static_cast<T *>(out[0]) + at;
      for (size_t i = 0; i < m; ++i)
        first[i] = Tr::store(acc[i]);
      for (int k = 1; k < outs; ++k)
        if (out[k] != out[0])
          std::memcpy(static_cast<T *>(out[k]) + at, first, m * sizeof(T));
    }
  }
}

template <typename T>
void reduceOp(const void *const *in, int n, void *const *out, int outs, size_t count,
              plan::Reduction reduction) {
  switch (reduction) {
  case plan::MAX:
    return reduceTyped<T, Max>(in, n, out, outs, count);
  case plan::MIN:
    return reduceTyped<T, Min>(in, n, out, outs, count);
  default:
    if constexpr (std::is_same_v<T, Bool>)
      return reduceTyped<T, Max>(in, n, out, outs, count);
    else
      return reduceTyped<T, Sum>(in, n, out, outs, count);
  }
}

} // namespace

size_t commElementSize(plan::DType dtype) {
  switch (dtype) {
  case plan::F64:
  case plan::I64:
    return 8;
  case plan::F32:
  case plan::I32:
    return 4;
  case plan::F16:
  case plan::BF16:
    return 2;
  case plan::I8:
  case plan::U8:
  case plan::BOOL:
    return 1;
  default:
    return 0;
  }
}

void reduceTo(const void *const *in, int n, void *const *out, int outs, size_t count,
              plan::DType dtype, plan::Reduction reduction) {
  switch (dtype) {
  case plan::F32:
    return reduceOp<float>(in, n, out, outs, count, reduction);
  case plan::F64:
    return reduceOp<double>(in, n, out, outs, count, reduction);
  case plan::F16:
    return reduceOp<Half>(in, n, out, outs, count, reduction);
  case plan::BF16:
    return reduceOp<BFloat>(in, n, out, outs, count, reduction);
  case plan::I64:
    return reduceOp<int64_t>(in, n, out, outs, count, reduction);
  case plan::I32:
    return reduceOp<int32_t>(in, n, out, outs, count, reduction);
  case plan::I8:
    return reduceOp<int8_t>(in, n, out, outs, count, reduction);
  case plan::U8:
    return reduceOp<uint8_t>(in, n, out, outs, count, reduction);
  default:
    return reduceOp<Bool>(in, n, out, outs, count, reduction);
  }
}

} // namespace tessera::rt
