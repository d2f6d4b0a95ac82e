#include "test/conformance/comm/Model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

namespace tessera::rt::conformance {

const std::vector<plan::DType> kAllTypes = {plan::F32, plan::F64, plan::F16, plan::BF16, plan::I64,
                                            plan::I32, plan::I8,  plan::U8,  plan::BOOL};

size_t elementSize(plan::DType dtype) {
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
  default:
    return 1;
  }
}

namespace {

/// 2 to the power of an exponent of normal doubles.
double power(int exponent) { return std::bit_cast<double>(uint64_t(exponent + 1023) << 52); }

/// A small binary float: `mantissa` explicit bits, smallest normal exponent `low`, largest `high`.
template <int mantissa, int low, int high> struct Small {
  static constexpr uint16_t kInfinity = uint16_t((high - low + 2) << mantissa);

  static uint16_t encode(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (std::isnan(value))
      return kInfinity | uint16_t(1 << (mantissa - 1));
    if (std::isinf(value))
      return sign | kInfinity;
    const int exponent = std::max(int(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023, low);
    // Units of the last place. Behind 2^52 a double has no fractions: the sum rounds ties to even. Overflowing mantissas
    // carry on their own.
    const auto units = uint32_t(magnitude * power(mantissa - exponent) + 0x1p52 - 0x1p52);
    const uint32_t bits = (uint32_t(exponent - low) << mantissa) + units;
    return sign | uint16_t(std::min<uint32_t>(bits, kInfinity));
  }

  static double decode(uint16_t bits) {
    const double sign = bits & 0x8000 ? -1 : 1;
    const int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
    if (exponent == high - low + 2)
      return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    const int units = exponent ? fraction + (1 << mantissa) : fraction;
    return sign * units * power(std::max(exponent, 1) - 1 + low - mantissa);
  }
};

// How elements of a dtype lie in memory: as a Stored, which is some double.
template <typename T> struct Number {
  using Stored = T;
  static constexpr bool kFraction = std::is_floating_point_v<T>;
  static T stored(double value) {
    if constexpr (std::is_floating_point_v<T>)
      return T(value);
    else
      return T(int64_t(value));
  }
  static double value(T stored) { return double(stored); }
};
template <typename Format> struct Half {
  using Stored = uint16_t;
  static constexpr bool kFraction = true;
  static uint16_t stored(double value) { return Format::encode(value); }
  static double value(uint16_t stored) { return Format::decode(stored); }
};
struct Truth {
  using Stored = uint8_t;
  static constexpr bool kFraction = false;
  static uint8_t stored(double value) { return value != 0; }
  static double value(uint8_t stored) { return stored; }
};

/// Calls f with the element of the dtype: loops are compiled for each.
template <typename F> auto dispatch(plan::DType dtype, F f) {
  switch (dtype) {
  case plan::F32:
    return f(Number<float>());
  case plan::F64:
    return f(Number<double>());
  case plan::F16:
    return f(Half<Small<10, -14, 15>>());
  case plan::BF16:
    return f(Half<Small<7, -126, 127>>());
  case plan::I64:
    return f(Number<int64_t>());
  case plan::I32:
    return f(Number<int32_t>());
  case plan::I8:
    return f(Number<int8_t>());
  case plan::U8:
    return f(Number<uint8_t>());
  default:
    return f(Truth());
  }
}

template <typename E> void putAs(E, Bytes &bytes, size_t index, double value) {
  const typename E::Stored stored = E::stored(value);
  std::memcpy(bytes.data() + index * sizeof stored, &stored, sizeof stored);
}
template <typename E> double getAs(E, const Bytes &bytes, size_t index) {
  typename E::Stored stored;
  std::memcpy(&stored, bytes.data() + index * sizeof stored, sizeof stored);
  return E::value(stored);
}

} // namespace

void put(Bytes &bytes, plan::DType dtype, size_t index, double value) {
  dispatch(dtype, [&](auto element) { putAs(element, bytes, index, value); });
}

double get(const Bytes &bytes, plan::DType dtype, size_t index) {
  return dispatch(dtype, [&](auto element) { return getAs(element, bytes, index); });
}

uint64_t mix(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + 1;
  for (int i = 0; i < 3; ++i) {
    x ^= x >> 31;
    x *= 0xd6e8feb86659fd93u;
  }
  return x ^ (x >> 29);
}

Bytes values(plan::DType dtype, size_t count, int rank, uint64_t seed) {
  Bytes bytes(count * elementSize(dtype));
  // Floats have magnitudes over ten octaves: another order of adding shows in the last bits.
  std::array<double, 11> octaves;
  for (int i = 0; i < 11; ++i)
    octaves[size_t(i)] = power(i - 5);
  dispatch(dtype, [&](auto element) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = mix(seed, uint64_t(rank) + 1, i);
      double value = double(bits % 2001) - 1000; // wraps in 8 bits, on purpose
      if constexpr (element.kFraction)
        value = (double(bits >> 11) / 9007199254740992.0 - 0.5) * octaves[bits % 11];
      else if constexpr (std::is_same_v<decltype(element), Truth>)
        value = bits % 5 == 0;
      putAs(element, bytes, i, value);
    }
  });
  return bytes;
}

namespace {

/// Puts f of the members' elements, taken in order, into `result`. Blocks of sums stay in the cache.
template <typename E, typename F> void combine(E element, std::span<const Bytes> inputs, Bytes &result, F f) {
  const size_t count = result.size() / sizeof(typename E::Stored);
  std::array<double, 512> sums;
  for (size_t begin = 0; begin < count; begin += sums.size()) {
    const size_t n = std::min(sums.size(), count - begin);
    for (size_t i = 0; i < n; ++i)
      sums[i] = getAs(element, inputs[0], begin + i);
    for (size_t m = 1; m < inputs.size(); ++m)
      for (size_t i = 0; i < n; ++i)
        sums[i] = f(sums[i], getAs(element, inputs[m], begin + i));
    for (size_t i = 0; i < n; ++i)
      putAs(element, result, begin + i, sums[i]);
  }
}

} // namespace

Bytes reduce(std::span<const Bytes> inputs, plan::DType dtype, plan::Reduction reduction) {
  Bytes result(inputs[0].size());
  const bool inFloat = dtype == plan::F32 || dtype == plan::F16 || dtype == plan::BF16;
  dispatch(dtype, [&](auto element) {
    if (reduction == plan::MAX)
      combine(element, inputs, result, [](double a, double b) { return std::max(a, b); });
    else if (reduction == plan::MIN)
      combine(element, inputs, result, [](double a, double b) { return std::min(a, b); });
    else if (inFloat)
      combine(element, inputs, result, [](double a, double b) { return double(float(a) + float(b)); });
    else
      combine(element, inputs, result, [](double a, double b) { return a + b; });
  });
  return result;
}

Bytes reduceAsTree(std::span<const Bytes> inputs, plan::DType dtype, plan::Reduction reduction) {
  std::vector<Bytes> sums;
  for (std::span<const Bytes> row = inputs; row.size() > 1; row = sums) {
    std::vector<Bytes> next;
    for (size_t i = 0; i + 1 < row.size(); i += 2)
      next.push_back(reduce(row.subspan(i, 2), dtype, reduction));
    if (row.size() % 2 == 1)
      next.push_back(row.back());
    sums = std::move(next);
  }
  return sums.empty() ? inputs[0] : sums[0];
}

std::vector<int64_t> offsets(const Box &box) {
  std::vector<int64_t> list = {box.offset};
  for (size_t d = 0; d < box.count.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : list)
      for (int64_t i = 0; i < box.count[d]; ++i)
        next.push_back(base + i * box.stride[d]);
    list = std::move(next);
  }
  return list;
}

} // namespace tessera::rt::conformance
