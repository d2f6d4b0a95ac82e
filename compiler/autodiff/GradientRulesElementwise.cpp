//===- GradientRulesElementwise.cpp - one value in, one value out --------------------------------===//
//
// add, sub, mul, neg, select and the numerator of div are linear: GradientContext::derived() knows
// them.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/autodiff/GradientRules.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using Context = GradientContext;

// The larger (or smaller) operand takes the adjoint. Equal ones share it, as PyTorch's maximum
// does; beside a bound that is no variable the value takes all of it, as PyTorch's clamp does.
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
    if (auto exponent = splatOf(b)) { // b * a^(b-1), without pow where it can be had
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

void addElementwiseRules(GradientRules &r) {
  r.constant<IotaOp, RandomOp, ConstantOp, ArgMaxOp, TopKOp>();

  r.rule<AbsOp>([](AbsOp op, Context &c) { c.give(0, c.b.mul(c.dy(), c.b.unary<SignOp>(op.getX()))); });
  r.rule<ExpOp>([](ExpOp op, Context &c) { c.give(0, c.b.mul(c.dy(), op.getY())); });
  r.rule<Expm1Op>([](Expm1Op op, Context &c) { // y + 1
    c.give(0, c.b.mul(c.dy(), c.b.sub(op.getY(), -1.0)));
  });
  r.rule<LogOp>([](LogOp op, Context &c) { c.give(0, c.b.div(c.dy(), op.getX())); });
  r.rule<Log1pOp>([](Log1pOp op, Context &c) { c.give(0, c.b.div(c.dy(), c.b.sub(op.getX(), -1.0))); });
  r.rule<SqrtOp>([](SqrtOp op, Context &c) { // 1 / 2y
    c.give(0, c.b.div(c.b.mul(c.dy(), 0.5), op.getY()));
  });
  r.rule<RsqrtOp>([](RsqrtOp op, Context &c) { // -y^3 / 2
    Value y = op.getY();
    c.give(0, c.b.mul(c.dy(), c.b.mul(c.b.mul(c.b.mul(y, y), y), -0.5)));
  });
  r.rule<ReciprocalOp>([](ReciprocalOp op, Context &c) { // -y^2
    c.give(0, c.b.neg(c.b.mul(c.dy(), c.b.mul(op.getY(), op.getY()))));
  });
  r.rule<TanhOp>([](TanhOp op, Context &c) { // 1 - y^2
    c.give(0, c.b.mul(c.dy(), c.b.sub(1.0, c.b.mul(op.getY(), op.getY()))));
  });
  r.rule<SigmoidOp>([](SigmoidOp op, Context &c) { // y (1 - y)
    c.give(0, c.b.mul(c.dy(), c.b.mul(op.getY(), c.b.sub(1.0, op.getY()))));
  });
  r.rule<ErfOp>([](ErfOp op, Context &c) { // 2 / sqrt(pi) e^(-x^2)
    Value x = op.getX();
    Value bell = c.b.unary<ExpOp>(c.b.neg(c.b.mul(x, x)));
    c.give(0, c.b.mul(c.dy(), c.b.mul(bell, 1.1283791670955126)));
  });
  r.rule<SinOp>([](SinOp op, Context &c) { c.give(0, c.b.mul(c.dy(), c.b.unary<CosOp>(op.getX()))); });
  r.rule<CosOp>([](CosOp op, Context &c) { c.give(0, c.b.neg(c.b.mul(c.dy(), c.b.unary<SinOp>(op.getX())))); });
  r.rule<AtanOp>([](AtanOp op, Context &c) { // 1 / (1 + x^2)
    Value square = c.b.mul(op.getX(), op.getX());
    c.give(0, c.b.div(c.dy(), c.b.sub(square, -1.0)));
  });
  r.rule<ReluOp>([](ReluOp op, Context &c) { // by the result: the operand need not be kept
    Value zero = c.b.constant(elementTypeOf(c.dy()), 0.0);
    c.give(0, c.b.select(c.b.binary<LtOp>(zero, op.getY()), c.dy(), zero));
  });
  r.rule<CastOp>([](CastOp op, Context &c) { c.give(0, c.b.cast(c.dy(), elementTypeOf(op.getX()))); });

  r.rule<DivOp>([](DivOp op, Context &c) {
    c.derived(0);
    if (c.needs(1)) // -y / b
      c.give(1, c.b.neg(c.b.mul(c.dy(), c.b.div(op.getY(), op.getB()))));
  });
  r.rule<PowOp>(power);
  r.rule<MaxOp>([](MaxOp op, Context &c) {
    Value a = op.getA(), b = op.getB();
    extremum(op, c, c.needs(0) ? c.b.binary<LeOp>(b, a) : Value(), c.needs(1) ? c.b.binary<LeOp>(a, b) : Value());
  });
  r.rule<MinOp>([](MinOp op, Context &c) {
    Value a = op.getA(), b = op.getB();
    extremum(op, c, c.needs(0) ? c.b.binary<LeOp>(a, b) : Value(), c.needs(1) ? c.b.binary<LeOp>(b, a) : Value());
  });
  r.rule<ModOp>([](ModOp op, Context &c) { // a - floor(a / b) b
    c.give(0, c.dy());
    if (c.needs(1)) {
      Value quotient = c.b.unary<FloorOp>(c.b.div(op.getA(), op.getB()));
      c.give(1, c.b.neg(c.b.mul(c.dy(), quotient)));
    }
  });
}

} // namespace tessera::compiler
