//===- GradientRulesStructural.cpp - moving and reducing elements --------------------------------===//
#include "compiler/autodiff/GradientRules.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using Context = GradientContext;

// The shape of x with an extent of 1 in the reduced dimensions.
static SmallVector<int64_t> keptShape(Value x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape(shapeOf(x));
  for (int64_t d : dims)
    shape[d] = 1;
  return shape;
}

// Equal extrema share the adjoint evenly, as PyTorch's amax and amin do.
template <typename OpT> static void reduceExtremum(OpT op, Context &c) {
  Value x = op.getX();
  SmallVector<int64_t> shape = keptShape(x, op.getDims());
  Value hit = c.b.binary<EqOp>(x, c.b.reshape(op.getY(), shape));
  Value count = c.b.reduceSum(c.b.cast(hit, elementTypeOf(x)), op.getDims(), /*keepdims=*/true);
  Value share = c.b.div(c.b.reshape(c.dy(), shape), count);
  c.give(0, c.b.select(hit, share, c.b.constant(elementTypeOf(x), 0.0)));
}

void addStructuralRules(GradientRules &r) {
  r.rule<BroadcastOp>([](BroadcastOp, Context &c) { c.give(0, c.dy()); }); // give() sums
  r.rule<ReshapeOp>([](ReshapeOp op, Context &c) { c.give(0, c.b.reshape(c.dy(), shapeOf(op.getX()))); });
  r.rule<TransposeOp>([](TransposeOp op, Context &c) {
    SmallVector<int64_t> inverse(op.getPerm().size());
    for (auto [i, p] : llvm::enumerate(op.getPerm()))
      inverse[p] = int64_t(i);
    c.give(0, c.b.transpose(c.dy(), inverse));
  });
  r.rule<SliceOp>([](SliceOp op, Context &c) {
    SmallVector<int64_t> lo(op.getStarts()), hi, inner;
    for (auto [d, n] : llvm::enumerate(shapeOf(op.getY()))) {
      int64_t stride = op.getStrides()[d];
      inner.push_back(stride - 1);
      int64_t covered = n == 0 ? 0 : (n - 1) * stride + 1;
      hi.push_back(shapeOf(op.getX())[d] - lo[d] - covered);
    }
    c.give(0, c.b.make<PadOp>(c.dy(), lo, hi, inner, llvm::APFloat(0.0)));
  });
  r.rule<PadOp>([](PadOp op, Context &c) {
    SmallVector<int64_t> limits, strides;
    for (auto [d, n] : llvm::enumerate(shapeOf(op.getY()))) {
      limits.push_back(n - op.getHi()[d]);
      strides.push_back(op.getInner()[d] + 1);
    }
    c.give(0, c.b.make<SliceOp>(c.dy(), op.getLo(), limits, strides));
  });
  r.rule<ConcatOp>([](ConcatOp op, Context &c) {
    int64_t dim = int64_t(op.getDim()), start = 0;
    for (auto [i, x] : llvm::enumerate(op.getXs())) {
      SmallVector<int64_t> starts(rankOf(x), 0), limits(shapeOf(op.getY())), strides(rankOf(x), 1);
      starts[dim] = start;
      limits[dim] = start += shapeOf(x)[dim];
      if (c.needs(unsigned(i)))
        c.give(unsigned(i), c.b.make<SliceOp>(c.dy(), starts, limits, strides));
    }
  });
  r.rule<GatherOp>([](GatherOp op, Context &c) {
    int64_t size = shapeOf(op.getTable())[op.getAxis()];
    c.give(0, c.b.make<ScatterAddOp>(op.getIndices(), c.dy(), op.getAxis(), size, op.getStart(), op.getBatchDims()));
  });
  r.rule<ScatterAddOp>([](ScatterAddOp op, Context &c) {
    c.give(1, c.b.make<GatherOp>(c.dy(), op.getIndices(), op.getAxis(), op.getStart(), op.getBatchDims()));
  });
  r.rule<ReduceSumOp>([](ReduceSumOp op, Context &c) {
    Value dy = c.b.reshape(c.dy(), keptShape(op.getX(), op.getDims()));
    c.give(0, c.b.broadcast(dy, shapeOf(op.getX())));
  });
  r.rule<ReduceMaxOp>(reduceExtremum<ReduceMaxOp>);
  r.rule<ReduceMinOp>(reduceExtremum<ReduceMinOp>);
}

} // namespace tessera::compiler
