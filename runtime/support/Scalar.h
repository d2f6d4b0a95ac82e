//===- Scalar.h - the elementwise operators on one element ------------------------------------===//
//
// Every row of Elementwise.def as a function of one element, for the three value classes float, double and int64_t.
// Integers wrap (they are computed as unsigned), a division by zero gives 0, so that no input can trap.
//
//   scalar::Mod::of<int64_t>(-7, 3) == 2; scalar::Max::of(NaN, 1.0f) is NaN
//   elementwiseFunction("exp")->real(1, 0, 0) == 2.718...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_SCALAR_H
#define TESSERA_RUNTIME_SUPPORT_SCALAR_H

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tessera::rt {

/// The types of an elementwise operator's operands and result.
enum class ElementwiseKind {
  FloatUnary,  // of floating-point numbers
  NumberUnary, // of any numbers
  LogicUnary,  // of BOOL
  Number,      // two numbers of one type
  Whole,       // two integers of one type
  Compare,     // two numbers of one type give BOOL
  Logic,       // two BOOL
  Select,      // a BOOL and two values of one type
};

/// How the function behaves between the ends of its test domain (COURSE in Elementwise.def).
enum class ElementwiseCourse { Smooth, Bent, Steps };

/// A row of Elementwise.def. The functions ignore operands that the operator does not have.
struct ElementwiseFunction {
  std::string_view name;
  ElementwiseKind kind;
  int operands;
  double (*real)(double a, double b, double c);
  int64_t (*whole)(int64_t a, int64_t b, int64_t c); // 0 where the operator takes no integers
  double low, high, tolerance;
  ElementwiseCourse course;
  double work; // in additions
};

/// All rows, in their order.
const std::vector<ElementwiseFunction> &elementwiseFunctions();
/// The row of this name, or null.
const ElementwiseFunction *elementwiseFunction(std::string_view name);

namespace scalar {

template <typename T> constexpr bool kIsInt = std::is_same_v<T, int64_t>;

// The functions that the expressions of Elementwise.def call.
inline constexpr int64_t none = 0;
inline int64_t wrap(uint64_t x) { return int64_t(x); }
inline uint64_t bits(int64_t x) { return uint64_t(x); }
template <typename T> T like(T r, T b) { return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
inline int64_t powerOf(int64_t a, int64_t b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = bits(a);
  for (; b; b >>= 1, base *= base)
    if (b & 1)
      result *= base;
  return wrap(result);
}
#define TESSERA_MATH(F, OPERANDS, CALLED)                                                                              \
  template <typename... T> auto math_##F(T... operands) { return std::F(operands...); }

/// One struct per operator, of which `of` is the function: scalar::Exp::of(1.0).
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, REAL, WHOLE, ...)                                              \
  struct NAME {                                                                                                        \
    static constexpr ElementwiseKind kind = ElementwiseKind::KIND;                                                     \
    static constexpr int operands = OPERANDS;                                                                          \
    template <typename T>                                                                                              \
    static auto of([[maybe_unused]] T a, [[maybe_unused]] T b = T(), [[maybe_unused]] T c = T()) {                     \
      if constexpr (kIsInt<T>)                                                                                         \
        return WHOLE;                                                                                                  \
      else                                                                                                             \
        return REAL;                                                                                                   \
    }                                                                                                                  \
  };
#include "runtime/support/Elementwise.def"

/// Converts between value classes. Float to integer truncates; NaN gives 0, and a number out of range gives the nearest
/// limit.
template <typename To, typename From> To convert(From x) {
  if constexpr (kIsInt<To> && !kIsInt<From>) {
    if (x != x)
      return 0;
    if (x >= From(0x1p63))
      return std::numeric_limits<int64_t>::max();
    if (x < From(-0x1p63))
      return std::numeric_limits<int64_t>::min();
  }
  return static_cast<To>(x);
}

} // namespace scalar
} // namespace tessera::rt

#endif
