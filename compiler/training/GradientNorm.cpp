//===- GradientNorm.cpp ----------------------------------------------------------------------------===//
#include "compiler/training/GradientNorm.h"

#include <map>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

Value sumOfSquares(OpWriter &b, ArrayRef<Value> gradients, const Slices &slices) {
  std::map<dist::AxisList, Value> sums; // by the axes over which the sum over ranks is still missing
  for (auto [i, g] : llvm::enumerate(gradients)) {
    if (!g)
      continue;
    Value &sum = sums[slices.axes.empty() ? dist::AxisList() : slices.axes[i]];
    Value wide = elementTypeOf(g).getIntOrFloatBitWidth() >= 32 ? g : b.cast(g, Float32Type::get(g.getContext()));
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

Value clipGlobalNorm(OpWriter &b, double limit, MutableArrayRef<Value> gradients, const Slices &slices) {
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
