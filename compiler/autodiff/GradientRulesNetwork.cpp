//===- GradientRulesNetwork.cpp - contractions, windows, normalisation ---------------------------===//
#include "compiler/autodiff/GradientRules.h"

#include <algorithm>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using Context = GradientContext;

static Value matmul(Context &c, Value a, Value b, bool transposeA, bool transposeB) {
  return c.b.make<MatMulOp>(a, b, transposeA, transposeB, /*wide=*/false, /*leaves=*/IntegerAttr());
}

// Reshapes [..., m, k] to one matrix of all rows.
static Value rows(Context &c, Value x) {
  int64_t n = 1;
  for (int64_t extent : shapeOf(x).drop_back())
    n *= extent;
  return c.b.reshape(x, {n, shapeOf(x).back()});
}

static void matMul(MatMulOp op, Context &c) {
  Value a = op.getA(), b = op.getB(), dy = c.dy();
  bool ta = op.getTransposeA(), tb = op.getTransposeB();
  c.name("grad_a");
  if (c.needs(0)) // ta: the operand is a^T, its adjoint (dy b^T)^T = b dy^T
    c.give(0, ta ? matmul(c, b, dy, tb, true) : matmul(c, dy, b, false, !tb));
  c.name("grad_b");
  if (!c.needs(1))
    return;
  if (rankOf(b) == 2 && rankOf(a) > 2 && !ta) {
    // If all batches share one matrix, its adjoint is a single product over the rows of all batches. A product per
    // batch and their sum would take longer.
    a = rows(c, a);
    dy = rows(c, dy);
  }
  c.give(1, tb ? matmul(c, dy, a, true, ta) : matmul(c, a, dy, !ta, false));
}

/// The gradient of the weights of a convolution from x to y.
template <typename Op> static Value weightGrad(Op op, Context &c, Value x, Value dy) {
  return c.b.make<ConvWeightGradOp>(x, dy, shapeOf(op.getW()).drop_front(2), op.getStrides(), op.getPads(),
                                    op.getDilations(), op.getGroups(), /*wide=*/false, /*leaves=*/IntegerAttr());
}

static void conv(ConvOp op, Context &c) {
  c.name("grad_x");
  if (c.needs(0))
    c.give(0, c.b.make<ConvInputGradOp>(c.dy(), op.getW(), shapeOf(op.getX()).drop_front(2), op.getStrides(),
                                        op.getPads(), op.getDilations(), op.getGroups()));
  c.name("grad_w");
  if (c.needs(1))
    c.give(1, weightGrad(op, c, op.getX(), c.dy()));
}

// A convolution of x whose result has exactly y's spatial extents. The upper padding is adjusted, because
// conv_input_grad drops terms at the border or has none there.
static Value convTo(Context &c, Value x, Value w, Value y, ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                    ArrayRef<int64_t> dilations, int64_t groups) {
  size_t spatial = strides.size();
  SmallVector<int64_t> exact(pads);
  bool cut = false;
  for (size_t d = 0; d < spatial; ++d) {
    int64_t reach = (shapeOf(y)[d + 2] - 1) * strides[d] + (shapeOf(w)[d + 2] - 1) * dilations[d] + 1;
    int64_t missing = reach - shapeOf(x)[d + 2] - pads[d];
    exact[spatial + d] = std::max<int64_t>(missing, 0);
    cut |= missing <= -strides[d];
  }
  Value result = c.b.make<ConvOp>(x, w, strides, exact, dilations, groups);
  if (!cut)
    return result;
  SmallVector<int64_t> zeros(rankOf(y), 0), ones(rankOf(y), 1);
  return c.b.make<SliceOp>(result, zeros, shapeOf(y), ones);
}

static void convInputGrad(ConvInputGradOp op, Context &c) {
  c.name("grad_x");
  if (c.needs(0))
    c.give(0,
           convTo(c, c.dy(), op.getW(), op.getDy(), op.getStrides(), op.getPads(), op.getDilations(), op.getGroups()));
  c.name("grad_w");
  if (c.needs(1))
    c.give(1, weightGrad(op, c, c.dy(), op.getDy()));
}

static void batchNorm(BatchNormOp op, Context &c) {
  if (c.dy(1) || c.dy(2))
    return c.fail("its batch mean and variance may only feed running statistics, but the loss "
                  "depends on them");
  auto grad = c.b.make<BatchNormGradOp>(c.dy(0), op.getX(), op.getScale(), op.getMean(), op.getVar(), op.getEpsilon());
  for (unsigned i = 0; i < 3; ++i)
    c.give(i, grad->getResult(i));
}

// The same operator with its statistics, in the place of `op`. That stays without a reader in the program, since a
// caller may hold its result.
static AttentionOp withStatistics(AttentionOp op, Context &c) {
  if (op.getKeepsStatistics())
    return op;
  OpBuilder builder(op);
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.set(op.getKeepsStatisticsAttrName(), builder.getUnitAttr());
  auto made = AttentionOp::create(builder, op.getLoc(), op->getOperands(), attributes.getAttrs());
  op->removeAttr(kNameAttr);
  op.getY().replaceAllUsesWith(made.getY());
  return made;
}

static void attention(AttentionOp op, Context &c) {
  if (op.getBias() && c.needs(3))
    return c.fail("its bias has no gradient rule");
  if (op.getKeep() && c.needs(op->getNumOperands() - 1))
    return c.fail("what dropout keeps has no gradient rule");
  if (op.getKeepsStatistics() && c.dy(1))
    return c.fail("its statistics may only feed its gradient, but the loss depends on them");
  AttentionOp kept = withStatistics(op, c);
  auto grad = c.b.make<AttentionGradOp>(c.dy(), op.getQ(), op.getK(), op.getV(), kept.getY(), kept.getStatistics(),
                                        op.getMore(), op.getScale(), op.getCausal(), op.getOutside(), op.getStart(),
                                        op.getRowsFirst(), op.getKeepScaleAttr());
  for (unsigned i = 0; i < 3; ++i)
    c.give(i, grad->getResult(i));
}

void addNetworkRules(GradientRules &r) {
  r.rule<MatMulOp>(matMul);
  r.rule<ConvOp>(conv);
  r.rule<ConvInputGradOp>(convInputGrad);
  r.rule<MaxPoolOp>([](MaxPoolOp op, Context &c) {
    c.give(0, c.b.make<MaxPoolGradOp>(op.getX(), c.dy(), op.getKernel(), op.getStrides(), op.getPads(),
                                      op.getDilations()));
  });
  r.rule<AvgPoolOp>([](AvgPoolOp op, Context &c) {
    c.give(0, c.b.make<AvgPoolGradOp>(c.dy(), shapeOf(op.getX()).drop_front(2), op.getKernel(), op.getStrides(),
                                      op.getPads(), op.getIncludePad()));
  });
  r.rule<SoftmaxOp>(
      [](SoftmaxOp op, Context &c) { c.give(0, c.b.make<SoftmaxGradOp>(c.dy(), op.getY(), op.getDim())); });
  r.rule<LogSoftmaxOp>(
      [](LogSoftmaxOp op, Context &c) { c.give(0, c.b.make<LogSoftmaxGradOp>(c.dy(), op.getY(), op.getDim())); });
  r.rule<BatchNormOp>(batchNorm);
  r.rule<AttentionOp>(attention);
}

} // namespace tessera::compiler
