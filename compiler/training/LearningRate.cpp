//===- LearningRate.cpp ----------------------------------------------------------------------------===//
#include "compiler/training/LearningRate.h"

#include <numbers>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

Value buildLearningRate(OpWriter &b, const LearningRateOptions &s, double lr, Value step, Type real) {
  b.setName("learning_rate");
  auto scalar = [&](double v) { return b.constant(real, v); };
  Value since = step; // steps since the warm-up ended
  if (s.warmup > 0)
    since = b.binary<MaxOp>(b.sub(step, b.integer(s.warmup)), b.integer(0));

  Value rate;
  switch (s.kind) {
  case LearningRateOptions::Constant:
    rate = scalar(lr);
    break;
  case LearningRateOptions::Step: {
    Value drops = b.cast(b.div(since, b.integer(s.every)), real); // integers: rounds down
    rate = b.mul(b.binary<PowOp>(scalar(s.gamma), drops), lr);
    break;
  }
  case LearningRateOptions::Cosine:
  case LearningRateOptions::Linear: {
    Value t = b.cast(b.binary<MinOp>(since, b.integer(s.steps)), real);
    if (s.kind == LearningRateOptions::Linear) {
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

} // namespace tessera::compiler
