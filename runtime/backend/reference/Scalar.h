//===- Scalar.h - the elementwise operators on one element ------------------------------------===//
//
// The definition of every elementwise operator on the three value classes. Integers wrap (they are
// computed as unsigned), a division by zero gives 0, so that no input can trap.
//
//   scalar::mod<int64_t>(-7, 3) == 2; scalar::maximum(NaN, 1.0f) is NaN
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_REFERENCE_SCALAR_H
#define TESSERA_RUNTIME_BACKEND_REFERENCE_SCALAR_H

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tessera::rt::scalar {

template <typename T> constexpr bool isInt = std::is_same_v<T, int64_t>;
inline int64_t wrap(uint64_t x) { return static_cast<int64_t>(x); }
inline uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }

template <typename T> T add(T a, T b) {
  if constexpr (isInt<T>)
    return wrap(u(a) + u(b));
  else
    return a + b;
}
template <typename T> T sub(T a, T b) {
  if constexpr (isInt<T>)
    return wrap(u(a) - u(b));
  else
    return a - b;
}
template <typename T> T mul(T a, T b) {
  if constexpr (isInt<T>)
    return wrap(u(a) * u(b));
  else
    return a * b;
}
template <typename T> T div(T a, T b) {
  if constexpr (isInt<T>)
    return b == 0 ? 0 : b == -1 ? wrap(0 - u(a)) : a / b;
  else
    return a / b;
}
template <typename T> T mod(T a, T b) {
  if constexpr (isInt<T>) {
    if (b == 0 || b == -1)
      return 0;
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
}
template <typename T> T power(T a, T b) {
  if constexpr (isInt<T>) {
    if (b < 0)
      return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = u(a);
    for (; b; b >>= 1, base *= base)
      if (b & 1)
        result *= base;
    return wrap(result);
  } else {
    return std::pow(a, b);
  }
}
template <typename T> T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> T minimum(T a, T b) { return a < b || a != a ? a : b; }

template <typename T> T neg(T a) { return sub(T(-0.0), a); }
template <> inline int64_t neg(int64_t a) { return wrap(0 - u(a)); }
template <typename T> T absolute(T a) {
  if constexpr (isInt<T>)
    return a < 0 ? neg(a) : a;
  else
    return std::fabs(a);
}
template <typename T> T sign(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a == 0 ? T(0) : a; }
template <typename T> T relu(T a) { return a > 0 || a != a ? a : T(0); }
template <typename T> T sigmoid(T a) { return T(1) / (T(1) + std::exp(-a)); }

/// Conversion between value classes: float to integer truncates; NaN gives 0, what is too large the
/// limit.
template <typename To, typename From> To convert(From x) {
  if constexpr (isInt<To> && !isInt<From>) {
    if (x != x)
      return 0;
    if (x >= From(0x1p63))
      return std::numeric_limits<int64_t>::max();
    if (x < From(-0x1p63))
      return std::numeric_limits<int64_t>::min();
  }
  return static_cast<To>(x);
}

} // namespace tessera::rt::scalar

#endif
