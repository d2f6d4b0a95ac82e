//===- GradientRulesElementwise.cpp - elementwise operators ---------------------------------------===//
//
// Most gradients are in the rows of Elementwise.def. This file has functions for the others:
//
//   max, min  the share of equal operands depends on whether both adjoints are needed
//   pow       a constant exponent gives a product, which needs no pow if the exponent is 0, 1, 2 or 3
//   cast      is no row of the table, since its type is a property of the result
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/autodiff/GradientTerms.h"
#include "runtime/support/Scalar.h"

#include <array>
#include <numbers>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using Context = GradientContext;

// The larger (or smaller) operand gets the adjoint. Equal operands share it, as in PyTorch's maximum. If only one of
// them needs an adjoint (the other is a bound), it gets all of it, as in PyTorch's clamp.
template <typename OpT> static void extremum(OpT op, Context &c, Value winsA, Value winsB) {
  Value zero = c.b.constant(elementTypeOf(c.dy()), 0.0);
  if (c.needs(0) && c.needs(1)) {
    Value tie = c.b.binary<EqOp>(op.getA(), op.getB());
    Value share = c.b.select(tie, c.b.mul(c.dy(), 0.5), c.dy());
    c.give(0, c.b.select(winsA, share, zero));
    c.give(1, c.b.select(winsB, share, zero));
  } else if (c.needs(0)) {
    c.give(0, c.b.select(winsA, c.dy(), zero));
  } else {
    c.give(1, c.b.select(winsB, c.dy(), zero));
  }
}

static void power(PowOp op, Context &c) {
  Value a = op.getA(), b = op.getB();
  if (c.needs(0)) {
    if (auto exponent = splatOf(b)) { // b * a^(b-1), without pow for small integers
      Value slope;
      if (*exponent == 2.0)
        slope = c.b.mul(a, 2.0);
      else if (*exponent == 3.0)
        slope = c.b.mul(c.b.mul(a, a), 3.0);
      else if (*exponent == 1.0)
        slope = c.b.constant(elementTypeOf(a), 1.0);
      else if (*exponent == 0.0)
        slope = c.b.constant(elementTypeOf(a), 0.0);
      else
        slope = c.b.mul(c.b.binary<PowOp>(a, c.b.constant(elementTypeOf(b), *exponent - 1)), *exponent);
      c.give(0, c.b.mul(c.dy(), slope));
    } else { // 0 * a^-1 at b = 0 would be NaN for a = 0
      Value zero = c.b.constant(elementTypeOf(a), 0.0);
      Value slope = c.b.mul(b, c.b.binary<PowOp>(a, c.b.sub(b, 1.0)));
      c.give(0, c.b.select(c.b.binary<EqOp>(b, zero), zero, c.b.mul(c.dy(), slope)));
    }
  }
  if (c.needs(1)) { // y * log a, and 0 where a = 0
    Value zero = c.b.constant(elementTypeOf(a), 0.0);
    Value slope = c.b.mul(op.getY(), c.b.unary<LogOp>(a));
    c.give(1, c.b.select(c.b.binary<EqOp>(a, zero), zero, c.b.mul(c.dy(), slope)));
  }
}

// Adds the rule of a row of Elementwise.def, from its column GRADIENT.
template <typename OpT, size_t N> static void addRow(GradientRules &r, const std::array<terms::Term, N> &column) {
  if (N == 0)
    return r.constant<OpT>();
  if (llvm::any_of(column, [](const terms::Term &term) { return term.is(terms::Instead::ByCode); }))
    return;
  r.rule<OpT>([column](OpT op, Context &c) {
    for (auto [i, term] : llvm::enumerate(column)) {
      auto operand = unsigned(i);
      if (!c.needs(operand))
        continue;
      if (term.is(terms::Instead::None) || (term.is(terms::Instead::Linear) && !c.derived(operand)))
        c.fail("there is no gradient rule for operand " + Twine(operand));
      else if (!term.is(terms::Instead::Linear))
        c.give(operand, term.build(op, c));
    }
  });
}

template <typename... Terms> static std::array<terms::Term, sizeof...(Terms)> column(const Terms &...parts) {
  return {terms::Term(parts)...};
}

static void addTable(GradientRules &r) {
  using namespace terms;
  using std::numbers::inv_sqrtpi;
  constexpr auto linear = Instead::Linear, none = Instead::None, byCode = Instead::ByCode;
  const Term g = resultAdjoint(), y = result(), a = operand(0), b = operand(1);
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, REAL, WHOLE, LOW, HIGH, TOLERANCE, COURSE, WORK, GRADIENT)     \
  static_assert(std::tuple_size_v<decltype(column GRADIENT)> ==                                                        \
                    (rt::ElementwiseCourse::COURSE == rt::ElementwiseCourse::Steps ? 0 : (OPERANDS)),                  \
                TEXT " needs one gradient per operand, and none in Steps");                                            \
  addRow<NAME##Op>(r, column GRADIENT);
#include "runtime/support/Elementwise.def"
}

void addElementwiseRules(GradientRules &r) {
  r.constant<IotaOp, RandomOp, ConstantOp, ArgMaxOp, TopKOp>();
  addTable(r);
  r.rule<CastOp>([](CastOp op, Context &c) { c.give(0, c.b.cast(c.dy(), elementTypeOf(op.getX()))); });
  r.rule<PowOp>(power);
  r.rule<MaxOp>([](MaxOp op, Context &c) {
    Value a = op.getA(), b = op.getB();
    extremum(op, c, c.needs(0) ? c.b.binary<LeOp>(b, a) : Value(), c.needs(1) ? c.b.binary<LeOp>(a, b) : Value());
  });
  r.rule<MinOp>([](MinOp op, Context &c) {
    Value a = op.getA(), b = op.getB();
    extremum(op, c, c.needs(0) ? c.b.binary<LeOp>(a, b) : Value(), c.needs(1) ? c.b.binary<LeOp>(b, a) : Value());
  });
}

} // namespace tessera::compiler
