//===- Optimizer.cpp -----------------------------------------------------------------------------===//
#include "compiler/training/Optimizer.h"

#include <cmath>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

SmallVector<StringRef> OptimizerBuilder::slots() const {
  if (o_.kind != OptimizerOptions::SGD)
    return {"adam_m", "adam_v"};
  if (o_.momentum != 0)
    return {"momentum"};
  return {};
}

// 1 - beta^t for t = step + 1. In the first steps beta^t is near 1, and the difference would have few correct digits in
// float32 (1 - 0.999f has a relative error of 5e-5). So it is computed as 1 - beta^t = -expm1(t ln(beta)) =
// 2 T / (T - 1) with T = tanh(t ln(beta) / 2).
static Value biasCorrection(OpWriter &b, double beta, Value t) {
  if (beta == 0)
    return b.constant(elementTypeOf(t), 1.0);
  Value half = b.unary<TanhOp>(b.mul(t, std::log(beta) / 2));
  return b.div(b.mul(half, 2.0), b.sub(half, 1.0));
}

void OptimizerBuilder::prepare(OpWriter &b, Value lr, Value step) {
  b.setName("optimizer");
  lr_ = lr;
  Type real = elementTypeOf(lr);
  if (o_.kind == OptimizerOptions::SGD) {
    if (o_.momentum != 0 && o_.dampening != 0) // the first buffer is the gradient itself
      share_ = b.select(b.binary<EqOp>(step, b.integer(0)), b.constant(real, 1.0), b.constant(real, 1 - o_.dampening));
    return;
  }
  Value t = b.add(b.cast(step, real), 1.0);
  stepSize_ = b.div(lr, biasCorrection(b, o_.beta1, t));
  rootBias_ = b.unary<SqrtOp>(biasCorrection(b, o_.beta2, t));
  if (o_.kind == OptimizerOptions::AdamW && o_.weightDecay != 0)
    keep_ = b.sub(1.0, b.mul(lr, o_.weightDecay));
}

OptimizerBuilder::Update OptimizerBuilder::update(OpWriter &b, Value p, Value g, ArrayRef<Value> states) {
  if (o_.weightDecay != 0 && o_.kind != OptimizerOptions::AdamW)
    g = b.add(g, b.mul(p, o_.weightDecay));
  return o_.kind == OptimizerOptions::SGD ? sgd(b, p, g, states) : adam(b, p, g, states);
}

OptimizerBuilder::Update OptimizerBuilder::sgd(OpWriter &b, Value p, Value g, ArrayRef<Value> states) {
  Type type = elementTypeOf(p);
  Update result;
  if (o_.momentum != 0) {
    // The buffer starts as zeros, so without dampening step 0 gives g by the general formula.
    Value share = share_ ? b.mul(g, b.cast(share_, type)) : g;
    Value buffer = b.add(b.mul(states[0], o_.momentum), share);
    result.states.push_back(buffer);
    g = o_.nesterov ? b.add(g, b.mul(buffer, o_.momentum)) : buffer;
  }
  result.parameter = b.sub(p, b.mul(g, b.cast(lr_, type)));
  return result;
}

OptimizerBuilder::Update OptimizerBuilder::adam(OpWriter &b, Value p, Value g, ArrayRef<Value> states) {
  Type type = elementTypeOf(p);
  if (keep_)
    p = b.mul(p, b.cast(keep_, type));
  Value m = b.add(b.mul(states[0], o_.beta1), b.mul(g, 1 - o_.beta1));
  Value v = b.add(b.mul(states[1], o_.beta2), b.mul(b.mul(g, g), 1 - o_.beta2));
  Value root = b.add(b.div(b.unary<SqrtOp>(v), b.cast(rootBias_, type)), o_.eps);
  Value change = b.mul(b.div(m, root), b.cast(stepSize_, type));
  return {b.sub(p, change), {m, v}};
}

} // namespace tessera::compiler
