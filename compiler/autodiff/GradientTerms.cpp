//===- GradientTerms.cpp -------------------------------------------------------------------------===//
#include "compiler/autodiff/GradientTerms.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler::terms {

using Parts = ArrayRef<Value>;

Value Term::build(Operation *op, GradientContext &c) const {
  if (number_)
    return c.b.constant(elementTypeOf(c.dy()), *number_);
  SmallVector<Value> values(parts_.size());
  for (bool numbers : {false, true})
    for (auto [part, value] : llvm::zip(parts_, values))
      if (part.number().has_value() == numbers)
        value = part.build(op, c);
  return builder_(op, c, values);
}

Term resultAdjoint() {
  return Term([](Operation *, GradientContext &c, Parts) { return c.dy(); });
}
Term result() {
  return Term([](Operation *op, GradientContext &, Parts) -> Value { return op->getResult(0); });
}
Term operand(unsigned number) {
  return Term([number](Operation *op, GradientContext &, Parts) { return op->getOperand(number); });
}

Term operator-(const Term &x) {
  return Term([](Operation *, GradientContext &c, Parts v) { return c.b.neg(v[0]); }, {x});
}
Term operator+(const Term &x, const Term &y) {
  if (auto number = y.number()) // writes x + 1 as x - -1, which keeps plans as they were
    return x - Term(-*number);
  return Term([](Operation *, GradientContext &c, Parts v) { return c.b.add(v[0], v[1]); }, {x, y});
}
Term operator-(const Term &x, const Term &y) {
  return Term([](Operation *, GradientContext &c, Parts v) { return c.b.sub(v[0], v[1]); }, {x, y});
}
Term operator*(const Term &x, const Term &y) {
  return Term([](Operation *, GradientContext &c, Parts v) { return c.b.mul(v[0], v[1]); }, {x, y});
}
Term operator/(const Term &x, const Term &y) {
  return Term([](Operation *, GradientContext &c, Parts v) { return c.b.div(v[0], v[1]); }, {x, y});
}
Term operator<(const Term &x, const Term &y) { return Lt(x, y); }

} // namespace tessera::compiler::terms
