#include "runtime/support/Scalar.h"

namespace tessera::rt {

const std::vector<ElementwiseFunction> &elementwiseFunctions() {
  static const std::vector<ElementwiseFunction> table = {
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, REAL, WHOLE, LOW, HIGH, TOLERANCE, COURSE, WORK, ...)          \
  {TEXT,                                                                                                               \
   ElementwiseKind::KIND,                                                                                              \
   OPERANDS,                                                                                                           \
   [](double a, double b, double c) -> double { return scalar::NAME::of(a, b, c); },                                   \
   [](int64_t a, int64_t b, int64_t c) -> int64_t { return scalar::NAME::of(a, b, c); },                               \
   LOW,                                                                                                                \
   HIGH,                                                                                                               \
   TOLERANCE,                                                                                                          \
   ElementwiseCourse::COURSE,                                                                                          \
   WORK},
#include "runtime/support/Elementwise.def"
  };
  return table;
}

const ElementwiseFunction *elementwiseFunction(std::string_view name) {
  for (const ElementwiseFunction &f : elementwiseFunctions())
    if (f.name == name)
      return &f;
  return nullptr;
}

} // namespace tessera::rt
