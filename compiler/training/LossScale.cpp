//===- LossScale.cpp -----------------------------------------------------------------------------===//
#include "compiler/training/LossScale.h"
#include "compiler/training/Optimizer.h"

#include <limits>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

std::array<LossScaler::Slot, 3> LossScaler::slots(const LossScaleOptions &options) {
  return {Slot{"loss_scale/scale", false, options.initial, "loss_scale"}, Slot{"loss_scale/good", true, 0, ""},
          Slot{"loss_scale/skipped", true, 0, "loss_scale_skipped"}};
}

void LossScaler::scale(OpWriter &b, MutableArrayRef<Seed> seeds) const {
  b.setName("loss_scale");
  for (Seed &seed : seeds)
    seed.adjoint = b.mul(seed.adjoint, b.cast(old_[0], elementTypeOf(seed.adjoint)));
}

void LossScaler::unscale(OpWriter &b, MutableArrayRef<Value> gradients) const {
  b.setName("loss_scale");
  Value inverse = b.div(b.constant(elementTypeOf(old_[0]), 1.0), old_[0]);
  for (Value &g : gradients)
    if (g)
      g = b.mul(g, b.cast(inverse, elementTypeOf(g)));
}

void LossScaler::check(OpWriter &b, ArrayRef<Value> gradients, const Slices &slices) {
  b.setName("loss_scale");
  // One reduction finds infinities and NaNs in all gradients. Clipping uses the same reduction.
  Value sum = sumOfSquares(b, gradients, slices);
  good_ = b.binary<LtOp>(sum, b.constant(elementTypeOf(sum), std::numeric_limits<float>::max()));
}

Value LossScaler::applied(OpWriter &b, Value step) const {
  b.setName("loss_scale");
  return b.sub(step, old_[2]);
}

Value LossScaler::keep(OpWriter &b, Value updated, Value old) const { return b.select(good_, updated, old); }

std::array<Value, 3> LossScaler::update(OpWriter &b) const {
  b.setName("loss_scale");
  Type real = elementTypeOf(old_[0]);
  Value next = b.add(old_[1], b.integer(1));
  Value grows = b.binary<EqOp>(next, b.integer(o_.interval));
  // The scale must become neither infinity nor zero, since no later step could change it then.
  Value larger = b.binary<MinOp>(b.mul(old_[0], o_.growth), b.constant(real, 0x1p126));
  Value smaller = b.binary<MaxOp>(b.mul(old_[0], o_.backoff), b.constant(real, 0x1p-126));
  Value scale = b.select(good_, b.select(grows, larger, old_[0]), smaller);
  Value zero = b.integer(0);
  Value good = b.select(good_, b.select(grows, zero, next), zero);
  Value skipped = b.add(old_[2], b.select(good_, zero, b.integer(1)));
  return {scale, good, skipped};
}

} // namespace tessera::compiler
