// Gradients against central differences in double precision.
//
//   check(program("softmax", {"3x4xf64"}, "3x4xf64", "dim = 1 : i64"), {{-2, 2}});
#ifndef TESSERA_TEST_UNIT_AUTODIFF_GRADIENTCHECKING_H
#define TESSERA_TEST_UNIT_AUTODIFF_GRADIENTCHECKING_H

#include "Programs.h"

#include "runtime/support/Scalar.h"

#include <algorithm>

namespace tessera::test {

struct Range {
  double low, high;
};

/// The range in which the gradient of an elementwise operator is compared: well inside its test domain, and of moderate
/// size.
inline Range rangeOf(const rt::ElementwiseFunction &f) {
  return {std::max(-2.0, f.low + 0.5), std::min(2.0, f.high - 0.5)};
}
/// Whether the operator has one operand and a gradient.
inline bool isDifferentiableUnary(const rt::ElementwiseFunction &f) {
  return f.operands == 1 && f.course != rt::ElementwiseCourse::Steps;
}

/// Differentiates sum(weights * y) of `func @f` -> y by its floating-point arguments, for fixed
/// weights, and compares with (L(x + h) - L(x - h)) / 2h per element. Integer arguments take the
/// values 0, 1, 2, ... modulo `classes`.
void check(const std::string &text, std::vector<Range> ranges = {}, int64_t classes = 4);

/// y = op(arguments); the types are given as "4x3xf64".
std::string program(const std::string &op, std::vector<std::string> in, const std::string &out,
                    const std::string &attributes = "");

} // namespace tessera::test

#endif
