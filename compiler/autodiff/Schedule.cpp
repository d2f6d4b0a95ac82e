//===- Schedule.cpp - learning rates as functions of the step ------------------------------------===//
#include "compiler/autodiff/Optimizer.h"

#include "dialects/dist/DistOps.h"

#include <map>
#include <numbers>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

Value buildLearningRate(OpWriter &b, const ScheduleOptions &s, double lr, Value step, Type real) {
  b.setName("learning_rate");
  auto scalar = [&](double v) { return b.constant(real, v); };
  Value since = step; // steps since the warm-up ended
  if (s.warmup > 0)
    since = b.binary<MaxOp>(b.sub(step, b.integer(s.warmup)), b.integer(0));

  Value rate;
  switch (s.kind) {
  case ScheduleOptions::Constant:
    rate = scalar(lr);
    break;
  case ScheduleOptions::Step: {
    Value drops = b.cast(b.div(since, b.integer(s.every)), real); // integers: rounds down
    rate = b.mul(b.binary<PowOp>(scalar(s.gamma), drops), lr);
    break;
  }
  case ScheduleOptions::Cosine:
  case ScheduleOptions::Linear: {
    Value t = b.cast(b.binary<MinOp>(since, b.integer(s.steps)), real);
    if (s.kind == ScheduleOptions::Linear) {
      rate = b.add(b.mul(t, lr * (s.end - 1) / double(s.steps)), lr);
      break;
    }
    Value wave = b.unary<CosOp>(b.mul(t, std::numbers::pi / double(s.steps)));
    rate = b.add(b.mul(b.add(wave, 1.0), (lr - s.min) / 2), s.min);
    break;
  }
  }
  if (s.warmup > 0) { // (t + 1) / warmup, at most 1
    Value share = b.mul(b.add(b.cast(step, real), 1.0), 1.0 / double(s.warmup));
    rate = b.mul(rate, b.binary<MinOp>(share, scalar(1.0)));
  }
  return rate;
}

Value sumOverRanks(OpWriter &b, const dist::Mesh &mesh, const dist::AxisList &axes, Value value) {
  if (mesh.size(axes) == 1)
    return value;
  dist::Collective c;
  c.kind = dist::CollectiveKind::AllReduce;
  c.axes = axes;
  c.reduction = dist::Reduction::Sum;
  c.localIn = c.localOut = dist::Shape(shapeOf(value));
  return b.make<dist::CollectiveOp>(value, mesh, c).getY();
}

Value sumOfSquares(OpWriter &b, ArrayRef<Value> gradients, const Slices &slices) {
  std::map<dist::AxisList, Value> sums; // by the axes over which they are still to be summed
  for (auto [i, g] : llvm::enumerate(gradients)) {
    if (!g)
      continue;
    Value &sum = sums[slices.axes.empty() ? dist::AxisList() : slices.axes[i]];
    Value wide = elementTypeOf(g).getIntOrFloatBitWidth() >= 32
                     ? g
                     : b.cast(g, Float32Type::get(g.getContext()));
    Value squares = b.sumAll(b.mul(wide, wide));
    sum = sum ? b.add(b.cast(sum, elementTypeOf(squares)), squares) : squares;
  }
  Value sum;
  for (auto &[axes, part] : sums) {
    Value whole = sumOverRanks(b, slices.mesh, axes, part);
    sum = sum ? b.add(b.cast(sum, elementTypeOf(whole)), whole) : whole;
  }
  return sum;
}

Value clipGlobalNorm(OpWriter &b, double limit, MutableArrayRef<Value> gradients,
                     const Slices &slices) {
  b.setName("clip");
  Value sum = sumOfSquares(b, gradients, slices);
  if (!sum)
    return Value();
  Value norm = b.unary<SqrtOp>(sum);
  Value factor = b.binary<MinOp>(b.div(b.constant(elementTypeOf(norm), limit), b.add(norm, 1e-6)),
                                 b.constant(elementTypeOf(norm), 1.0));
  for (Value &g : gradients)
    if (g)
      g = b.mul(g, b.cast(factor, elementTypeOf(g)));
  return norm;
}

} // namespace tessera::compiler
