//===- DecomposeNorms.cpp - normalisations as reductions and arithmetic --------------------------===//
//
// The pass writes batch normalisation and log_softmax as reductions over the global tensor and elementwise operators.
// So statistics are over the global tensor under every sharding: a cut batch, or cut classes, give partial results, and
// the search decides where they are reduced.
//
// Batch normalisation:
//
//   forward   mean = sum(x) / n;  var = sum((x - mean)^2) / n;  y = x * a + b
//             with a = scale / sqrt(var + eps), b = bias - mean * a
//   backward  s = sum(dy), d = sum(dy * (mean - x)) in one pass over memory, then
//             dx = (dy + (x * p - q)) * a, with p = d * rstd^2 / n, q = s / n + p * mean
//             dscale = -d * rstd, dbias = s
//
// After fusion each line that reads x is one pass over memory. No two lines share an elementwise value. Otherwise
// graph-simplify would merge a shared difference x - mean, and it would be kept in memory from forward to backward
// although x is kept anyway. So the difference in the backward pass has the opposite sign, and the last passes are
// affine in x with coefficients per channel, as in PyTorch's CPU kernels. Nothing of the last line is known before d
// and s are, so that the pass over memory before it stores no part of it.
//
// log_softmax:
//
//   forward   m = max(x);  z = sum(e^-(m - x));  y = (x + -m) - log z
//   backward  s = sum(dy);  dx = dy - e^y * s
//
// A loss picks one y of each line, so that dy is zero elsewhere. The loops of these lines compute y and dy again from x
// and the targets, and neither is ever in memory. Again no two lines share an elementwise value of x.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"
#include "dialects/graph/OpWriter.h"

#include "mlir/Pass/Pass.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_DECOMPOSENORMSPASS
#include "compiler/transform/Passes.h.inc"

namespace {

/// Shapes of x [n, c, ...] that both directions use.
struct Channels {
  explicit Channels(Value x) : rank(rankOf(x)) {
    for (int64_t d = 0; d < rank; ++d)
      if (d != 1) {
        dims.push_back(d);
        count *= double(shapeOf(x)[d]);
      }
  }
  int64_t rank;
  SmallVector<int64_t> dims; // all but the channels
  double count = 1;          // elements per channel
};

class Decomposer {
public:
  Decomposer(OpWriter &writer, Operation *op) : b_(writer), op_(op) {
    base_ = b_.takeName(op); // goes to the operator that makes its first result
    b_.moveBefore(op);
  }

  void forward(BatchNormOp op) {
    Value x = op.getX();
    Channels c(x);
    Value mean = named("/mean").mul(b_.reduceSum(x, c.dims, false), 1 / c.count);
    Value d = named("/deviation").sub(x, b_.alongDim(mean, 1, c.rank));
    Value squares = b_.mul(d, d);
    Value var = named("/var").mul(b_.reduceSum(squares, c.dims, false), 1 / c.count);
    Value a = named("/scale").mul(op.getScale(), rstd(var, op.getEpsilon()));
    Value shift = named("/shift").sub(op.getBias(), b_.mul(mean, a));
    Value along = named("/apply").alongDim(a, 1, c.rank);
    Value scaled = b_.mul(x, along);
    shift = b_.alongDim(shift, 1, c.rank);
    Value y = named("").add(scaled, shift);
    op->replaceAllUsesWith(ValueRange{y, mean, var});
  }

  void backward(BatchNormGradOp op) {
    Value x = op.getX(), dy = op.getDy(), mean = op.getMean();
    Channels c(x);
    Value s = named("/sum").reduceSum(dy, c.dims, false);
    Value opposite = named("/dot").sub(b_.alongDim(mean, 1, c.rank), x);
    Value product = b_.mul(dy, opposite);
    Value d = b_.reduceSum(product, c.dims, false);
    named("/coefficients");
    Value r = rstd(op.getVar(), op.getEpsilon());
    Value a = b_.mul(op.getScale(), r);
    Value t = b_.mul(d, r);
    Value p = b_.mul(b_.mul(t, r), 1 / c.count);
    Value q = b_.add(b_.mul(s, 1 / c.count), b_.mul(p, mean));
    named("/apply");
    Value means = b_.mul(x, b_.alongDim(p, 1, c.rank));
    means = b_.sub(means, b_.alongDim(q, 1, c.rank));
    Value centred = b_.add(dy, means);
    Value along = b_.alongDim(a, 1, c.rank);
    Value dx = named("").mul(centred, along);
    Value dscale = named("/scale").neg(t);
    op->replaceAllUsesWith(ValueRange{dx, dscale, s});
  }

  void logSoftmax(LogSoftmaxOp op) {
    Value x = op.getX();
    const SmallVector<int64_t> dims{int64_t(op.getDim())};
    Value max = named("/max").make<ReduceMaxOp>(x, dims, true);
    Value below = named("/sum").sub(max, x);
    Value powers = b_.unary<ExpOp>(b_.neg(below));
    Value log = b_.unary<LogOp>(b_.reduceSum(powers, dims, true));
    Value centred = named("/apply").add(x, b_.neg(max));
    op->replaceAllUsesWith(ValueRange{named("").sub(centred, log)});
  }

  void logSoftmaxGrad(LogSoftmaxGradOp op) {
    Value dy = op.getDy();
    Value sum = named("/sum").reduceSum(dy, {int64_t(op.getDim())}, true);
    Value share = named("/apply").mul(b_.unary<ExpOp>(op.getY()), sum);
    op->replaceAllUsesWith(ValueRange{named("").sub(dy, share)});
  }

private:
  OpWriter &named(StringRef suffix) {
    b_.setName(base_ + suffix);
    b_.setOrigin(op_);
    return b_;
  }
  Value rstd(Value var, const APFloat &epsilon) { return b_.unary<RsqrtOp>(b_.add(var, epsilon.convertToDouble())); }

  OpWriter &b_;
  Operation *op_;
  std::string base_;
};

struct DecomposeNorms : impl::DecomposeNormsPassBase<DecomposeNorms> {
  void runOnOperation() override {
    SmallVector<Operation *> norms;
    getOperation().walk([&](Operation *op) {
      if (isa<BatchNormOp, BatchNormGradOp, LogSoftmaxOp, LogSoftmaxGradOp>(op))
        norms.push_back(op);
    });
    if (norms.empty())
      return;
    OpWriter writer(getOperation());
    for (Operation *op : norms) { // in program order, so that later norms share the constants of earlier ones
      Decomposer decomposer(writer, op);
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](BatchNormOp norm) { decomposer.forward(norm); })
          .Case([&](BatchNormGradOp norm) { decomposer.backward(norm); })
          .Case([&](LogSoftmaxOp softmax) { decomposer.logSoftmax(softmax); })
          .Case([&](LogSoftmaxGradOp softmax) { decomposer.logSoftmaxGrad(softmax); });
      op->erase();
    }
  }
};

} // namespace

} // namespace tessera::compiler
