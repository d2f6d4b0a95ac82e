#include "runtime/tensor/ConvertElements.h"
#include "runtime/plan/PlanInfo.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera::rt {

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) { // zero and subnormal: fraction * 2^-24, exact in float
    float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t floatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return uint16_t(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) // rounds to 2^16 or more
    return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24, rounded by the FPU
    float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return uint16_t(sign | uint32_t(std::nearbyintf(scaled)));
  }
  uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return uint16_t(sign | (rounded - (112u << 23)) >> 13);
}

namespace {

/// The value of an element: every type fits in one of these two.
struct Value {
  bool integer;
  int64_t i;
  double d;
};

template <typename T> T fetch(const char *p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <typename T> void store(char *p, T value) { std::memcpy(p, &value, sizeof(T)); }

Value load(const char *p, plan::DType type) {
  switch (type) {
  case plan::F32:
    return {false, 0, fetch<float>(p)};
  case plan::F64:
    return {false, 0, fetch<double>(p)};
  case plan::F16:
    return {false, 0, halfToFloat(fetch<uint16_t>(p))};
  case plan::BF16:
    return {false, 0, std::bit_cast<float>(uint32_t(fetch<uint16_t>(p)) << 16)};
  case plan::I64:
    return {true, fetch<int64_t>(p), 0};
  case plan::I32:
    return {true, fetch<int32_t>(p), 0};
  case plan::I8:
    return {true, fetch<int8_t>(p), 0};
  default:
    return {true, fetch<uint8_t>(p), 0};
  }
}

uint16_t floatToBfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

int64_t truncate(double d) {
  if (std::isnan(d))
    return 0;
  if (d >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  return d < -0x1p63 ? std::numeric_limits<int64_t>::min() : int64_t(d);
}

void put(char *p, plan::DType type, Value v) {
  double d = v.integer ? double(v.i) : v.d;
  int64_t i = v.integer ? v.i : truncate(v.d);
  switch (type) {
  case plan::F32:
    return store(p, float(d));
  case plan::F64:
    return store(p, d);
  case plan::F16:
    return store(p, floatToHalf(float(d)));
  case plan::BF16:
    return store(p, floatToBfloat(float(d)));
  case plan::I64:
    return store(p, i);
  case plan::I32:
    return store(p, int32_t(i));
  case plan::BOOL:
    return store(p, uint8_t(v.integer ? v.i != 0 : v.d != 0));
  default:
    return store(p, uint8_t(i));
  }
}

} // namespace

void convertElements(const void *source, plan::DType sourceType, void *target, plan::DType targetType, size_t count) {
  const char *from = static_cast<const char *>(source);
  char *to = static_cast<char *>(target);
  size_t fromSize = bytesPerElement(sourceType), toSize = bytesPerElement(targetType);
  if (sourceType == targetType) {
    std::memcpy(to, from, count * fromSize);
    return;
  }
  for (size_t i = 0; i < count; ++i)
    put(to + i * toSize, targetType, load(from + i * fromSize, sourceType));
}

} // namespace tessera::rt
