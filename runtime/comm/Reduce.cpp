#include "runtime/comm/Reduce.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/support/Float16.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace tessera::rt {
namespace {

constexpr size_t kAccBytes = 16384; // half of a first-level cache, to leave room for the inputs

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

/// How elements of a type are accumulated: the type of sums, and the conversions to it and back.
template <typename T> struct Traits {
  using Acc = T;
  static Acc load(T v) { return v; }
  static T store(Acc a) { return a; }
};
template <> struct Traits<Half> {
  using Acc = float;
  static float load(Half v) { return halfToFloat(v.bits); }
  static Half store(float a) { return {floatToHalf(a)}; }
};
template <> struct Traits<BFloat> {
  using Acc = float;
  static float load(BFloat v) { return bfloatToFloat(v.bits); }
  static BFloat store(float a) { return {floatToBfloat(a)}; }
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
      return ((a > b) | (a != a)) ? a : b;
    else
      return a > b ? a : b;
  }
};
struct Min {
  template <typename A> static A apply(A a, A b) {
    if constexpr (std::is_floating_point_v<A>)
      return ((a < b) | (a != a)) ? a : b;
    else
      return a < b ? a : b;
  }
};

template <typename T, typename A> void writeAll(const A *acc, size_t m, void *const *out, int outs, size_t at) {
  if constexpr (std::is_same_v<T, A>) {
    for (int k = 0; k < outs; ++k)
      std::memcpy(static_cast<T *>(out[k]) + at, acc, m * sizeof(T));
  } else {
    T *first = static_cast<T *>(out[0]) + at;
    for (size_t i = 0; i < m; ++i)
      first[i] = Traits<T>::store(acc[i]);
    for (int k = 1; k < outs; ++k)
      if (out[k] != out[0])
        std::memcpy(static_cast<T *>(out[k]) + at, first, m * sizeof(T));
  }
}

template <typename T, typename Op>
void reduceInRow(const void *const *in, int n, void *const *out, int outs, size_t count) {
  using Tr = Traits<T>;
  using Acc = typename Tr::Acc;
  constexpr size_t kBlock = kAccBytes / sizeof(Acc);
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
    writeAll<T>(acc, m, out, outs, at); // last, since an output may be an input
  }
}

template <typename T, typename Op>
void reduceAsTree(const void *const *in, int n, void *const *out, int outs, size_t count) {
  using Tr = Traits<T>;
  using Acc = typename Tr::Acc;
  // Sums wait on a stack, the larger ones below, as the digits of a binary counter of the pairs.
  const auto levels = size_t(std::bit_width(unsigned(n)));
  const size_t block = std::max<size_t>(kAccBytes / sizeof(Acc) / levels / 16 * 16, 16);
  alignas(64) Acc stack[kAccBytes / sizeof(Acc) + 16 * 32];
  auto sum = [](Acc a, Acc b) { return Tr::load(Tr::store(Op::apply(a, b))); };
  for (size_t at = 0; at < count; at += block) {
    const size_t m = std::min(block, count - at);
    size_t depth = 0;
    auto addTop = [&] {
      Acc *to = stack + (depth - 2) * block;
      const Acc *from = to + block;
      for (size_t i = 0; i < m; ++i)
        to[i] = sum(to[i], from[i]);
    };
    for (int k = 0; k < n; k += 2) {
      Acc *to = stack + depth++ * block;
      const T *a = static_cast<const T *>(in[k]) + at;
      if (k + 1 < n) {
        const T *b = static_cast<const T *>(in[k + 1]) + at;
        for (size_t i = 0; i < m; ++i)
          to[i] = sum(Tr::load(a[i]), Tr::load(b[i]));
      } else {
        for (size_t i = 0; i < m; ++i)
          to[i] = Tr::load(a[i]);
      }
      for (int pairs = k / 2 + 1; pairs % 2 == 0; pairs /= 2, --depth)
        addTop();
    }
    for (; depth > 1; --depth)
      addTop();
    writeAll<T>(stack, m, out, outs, at); // last, since an output may be an input
  }
}

template <typename T, typename Op>
void reduceTyped(const void *const *in, int n, void *const *out, int outs, size_t count, bool tree) {
  if (tree && n > 2) // two members have one order
    reduceAsTree<T, Op>(in, n, out, outs, count);
  else
    reduceInRow<T, Op>(in, n, out, outs, count);
}

template <typename T>
void reduceOp(const void *const *in, int n, void *const *out, int outs, size_t count, Reducer reducer) {
  switch (reducer.reduction) {
  case plan::MAX:
    return reduceTyped<T, Max>(in, n, out, outs, count, reducer.tree);
  case plan::MIN:
    return reduceTyped<T, Min>(in, n, out, outs, count, reducer.tree);
  default:
    if constexpr (std::is_same_v<T, Bool>)
      return reduceTyped<T, Max>(in, n, out, outs, count, reducer.tree);
    else
      return reduceTyped<T, Sum>(in, n, out, outs, count, reducer.tree);
  }
}

} // namespace

void reduceTo(const void *const *in, int n, void *const *out, int outs, size_t count, plan::DType dtype,
              Reducer reducer) {
  switch (dtype) {
  case plan::F32:
    return reduceOp<float>(in, n, out, outs, count, reducer);
  case plan::F64:
    return reduceOp<double>(in, n, out, outs, count, reducer);
  case plan::F16:
    return reduceOp<Half>(in, n, out, outs, count, reducer);
  case plan::BF16:
    return reduceOp<BFloat>(in, n, out, outs, count, reducer);
  case plan::I64:
    return reduceOp<int64_t>(in, n, out, outs, count, reducer);
  case plan::I32:
    return reduceOp<int32_t>(in, n, out, outs, count, reducer);
  case plan::I8:
    return reduceOp<int8_t>(in, n, out, outs, count, reducer);
  case plan::U8:
    return reduceOp<uint8_t>(in, n, out, outs, count, reducer);
  default:
    return reduceOp<Bool>(in, n, out, outs, count, reducer);
  }
}

bool goesByRuns(int n, int run, Reducer reducer) {
  return run > 1 && run < n && !(reducer.tree && !std::has_single_bit(unsigned(run)));
}

void reduceByRuns(const void *const *in, int n, int run, void *const *out, int outs, size_t count, plan::DType dtype,
                  Reducer reducer) {
  if (!goesByRuns(n, run, reducer))
    return reduceTo(in, n, out, outs, count, dtype, reducer);
  const int runs = n / run;
  const size_t size = bytesPerElement(dtype);
  // The results of all runs stay in the cache. They are rows of a block, each a whole number of lines.
  const size_t row = std::max<size_t>(kAccBytes / size_t(runs) / 64 * 64, 64);
  static thread_local std::vector<std::byte> sums;
  sums.resize(std::max(sums.size(), row * size_t(runs)));
  std::vector<const void *> from(size_t(n) + size_t(runs));
  std::vector<void *> to(static_cast<size_t>(outs));
  for (size_t at = 0; at < count; at += row / size) {
    const size_t m = std::min(row / size, count - at);
    for (int k = 0; k < n; ++k)
      from[size_t(k)] = static_cast<const std::byte *>(in[k]) + at * size;
    for (int r = 0; r < runs; ++r) {
      void *sum = sums.data() + size_t(r) * row;
      reduceTo(from.data() + size_t(r) * size_t(run), run, &sum, 1, m, dtype, reducer);
      from[size_t(n) + size_t(r)] = sum;
    }
    for (int k = 0; k < outs; ++k)
      to[size_t(k)] = static_cast<std::byte *>(out[k]) + at * size;
    reduceTo(from.data() + n, runs, to.data(), outs, m, dtype, reducer);
  }
}

bool anyOrder(int n, plan::DType dtype, plan::Reduction reduction) {
  return n <= 2 || reduction != plan::SUM || !isFloatType(dtype);
}

} // namespace tessera::rt
