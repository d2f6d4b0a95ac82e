#include "test/conformance/comm/Model.h"

#include <cmath>
#include <cstring>
#include <limits>

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

/// A small binary float: `mantissa` explicit bits, smallest normal exponent `low`, largest `high`.
struct Format {
  int mantissa, low, high;
};
Format formatOf(plan::DType dtype) { return dtype == plan::F16 ? Format{10, -14, 15} : Format{7, -126, 127}; }

uint16_t encode(double value, Format format) {
  const int shift = format.mantissa;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity = uint16_t((format.high - format.low + 2) << shift);
  const double magnitude = std::fabs(value);
  if (std::isnan(value))
    return infinity | uint16_t(1 << (shift - 1));
  if (std::isinf(value))
    return sign | infinity;
  if (magnitude == 0)
    return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.low);
  // Units of the last place; nearbyint rounds ties to even. Overflowing mantissas carry on their
  // own.
  const auto units = uint32_t(std::nearbyint(std::ldexp(magnitude, shift - exponent)));
  const uint32_t bits = (uint32_t(exponent - format.low) << shift) + units;
  return sign | uint16_t(std::min<uint32_t>(bits, infinity));
}

double decode(uint16_t bits, Format format) {
  const int shift = format.mantissa;
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> shift;
  const int fraction = bits & ((1 << shift) - 1);
  if (exponent == format.high - format.low + 2)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const int units = exponent ? fraction + (1 << shift) : fraction;
  return sign * std::ldexp(units, std::max(exponent, 1) - 1 + format.low - shift);
}

template <typename T> void store(Bytes &bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}
template <typename T> double load(const Bytes &bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return double(value);
}

} // namespace

void put(Bytes &bytes, plan::DType dtype, size_t index, double value) {
  switch (dtype) {
  case plan::F32:
    return store(bytes, index, float(value));
  case plan::F64:
    return store(bytes, index, value);
  case plan::F16:
  case plan::BF16:
    return store(bytes, index, encode(value, formatOf(dtype)));
  case plan::I64:
    return store(bytes, index, int64_t(value));
  case plan::I32:
    return store(bytes, index, int32_t(int64_t(value)));
  case plan::I8:
    return store(bytes, index, int8_t(int64_t(value)));
  case plan::U8:
    return store(bytes, index, uint8_t(int64_t(value)));
  default:
    return store(bytes, index, uint8_t(value != 0));
  }
}

double get(const Bytes &bytes, plan::DType dtype, size_t index) {
  switch (dtype) {
  case plan::F32:
    return load<float>(bytes, index);
  case plan::F64:
    return load<double>(bytes, index);
  case plan::F16:
  case plan::BF16: {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + index * 2, 2);
    return decode(bits, formatOf(dtype));
  }
  case plan::I64:
    return load<int64_t>(bytes, index);
  case plan::I32:
    return load<int32_t>(bytes, index);
  case plan::I8:
    return load<int8_t>(bytes, index);
  default:
    return load<uint8_t>(bytes, index);
  }
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
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = mix(seed, uint64_t(rank) + 1, i);
    double value = 0;
    switch (dtype) {
    case plan::F32:
    case plan::F64:
    case plan::F16:
    case plan::BF16: // magnitudes over ten octaves: another order of adding shows in the last bits
      value = std::ldexp(double(bits >> 11) / 9007199254740992.0 - 0.5, int(bits % 11) - 5);
      break;
    case plan::BOOL:
      value = bits % 5 == 0;
      break;
    default:
      value = double(bits % 2001) - 1000; // wraps in 8 bits, on purpose
    }
    put(bytes, dtype, i, value);
  }
  return bytes;
}

Bytes reduce(const std::vector<Bytes> &inputs, plan::DType dtype, plan::Reduction reduction) {
  Bytes result = inputs[0];
  const size_t count = result.size() / elementSize(dtype);
  const bool inFloat = dtype == plan::F32 || dtype == plan::F16 || dtype == plan::BF16;
  for (size_t i = 0; i < count; ++i) {
    double sum = get(inputs[0], dtype, i);
    for (size_t m = 1; m < inputs.size(); ++m) {
      const double next = get(inputs[m], dtype, i);
      if (reduction == plan::MAX)
        sum = std::max(sum, next);
      else if (reduction == plan::MIN)
        sum = std::min(sum, next);
      else
        sum = inFloat ? float(sum) + float(next) : sum + next;
    }
    put(result, dtype, i, sum);
  }
  return result;
}

Bytes reduceAsTree(std::vector<Bytes> inputs, plan::DType dtype, plan::Reduction reduction) {
  while (inputs.size() > 1) {
    std::vector<Bytes> sums;
    for (size_t i = 0; i + 1 < inputs.size(); i += 2)
      sums.push_back(reduce({inputs[i], inputs[i + 1]}, dtype, reduction));
    if (inputs.size() % 2 == 1)
      sums.push_back(inputs.back());
    inputs = std::move(sums);
  }
  return inputs[0];
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
