//===- Loss.cpp - losses that the model file computes itself --------------------------------------===//
//
// A comparison of the label with 0, 1, ... selects the class of every sample. A gather would not allow to shard the
// class dimension. Samples of the class `ignore_index` are left out of the sum and of the mean.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

using namespace tessera;
using namespace tessera::compiler;

/// -sum over classes of logp where the class is the label, weighted, and reduced. logp is [n, c, d...],
/// labels are [n, d...].
static Val negativeLogLikelihood(Node &n, const Val &logp, const Val &labels, const Val &weights) {
  std::string reduction = n.attrString("reduction", "mean");
  bool ignores = n.hasAttr("ignore_index");
  int64_t ignored = n.attrInt("ignore_index", 0);
  if (!logp || !labels || n.failed())
    return {};
  Shape expected = logp.shape;
  if (logp.rank() >= 2)
    expected.erase(expected.begin() + 1);
  if (logp.rank() < 2 || !isFloat(logp.type) || isFloat(labels.type) || labels.shape != expected)
    return n.fail("labels of shape " + shapeText(labels.shape) + " " + dtypeName(labels.type) +
                  " do not fit scores of shape " + shapeText(logp.shape) + " " + dtypeName(logp.type));
  int64_t classes = logp.shape[1];
  if (weights && (weights.rank() != 1 || weights.shape[0] != classes || weights.type != logp.type))
    return n.fail("the weights must be " + llvm::Twine(classes) + " " + dtypeName(logp.type));
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return n.fail("reduction='" + reduction + "' is unknown");

  Val ids = n.b.cast(labels, DType::I64, "labels");
  Shape wide = labels.shape, line(logp.rank(), 1);
  wide.insert(wide.begin() + 1, 1);
  line[1] = classes;
  Val hit = n.b.binary<graph::EqOp>(n.b.reshape(ids, wide, "labels_reshape"), n.b.iota(DType::I64, line, 1, "classes"),
                                    "hit");
  bool inside = ignores && ignored >= 0 && ignored < classes;
  if (inside) {
    Val valid =
        n.b.unary<graph::NotOp>(n.b.binary<graph::EqOp>(ids, n.b.scalarLike(ids, double(ignored)), "ignored"), "valid");
    hit = n.b.binary<graph::AndOp>(hit, n.b.reshape(valid, wide, "valid_reshape"), "hit_valid");
  }
  Val one = n.b.scalarLike(logp, -1), factor = one;
  if (weights)
    factor = n.b.unary<graph::NegOp>(n.b.reshape(weights, line, "weights_reshape"), "weights_neg");
  // -weight at the label's class, else 0.
  Val mask = n.b.select(hit, factor, n.b.scalarLike(logp, 0), "mask");
  Val terms = n.b.mul(logp, mask, "terms");
  if (reduction == "none")
    return n.b.reduce<graph::ReduceSumOp>(terms, {1}, false);
  Shape all;
  for (int64_t d = 0; d < logp.rank(); ++d)
    all.push_back(d);
  if (reduction == "sum")
    return n.b.reduce<graph::ReduceSumOp>(terms, all, false);
  if (!weights && !ignores) {
    double count = double(logp.size()) / double(classes);
    return n.b.scale(n.b.reduce<graph::ReduceSumOp>(terms, all, false), 1 / count, "scale");
  }
  Val total = n.b.unary<graph::NegOp>(n.b.reduce<graph::ReduceSumOp>(mask, all, false, "count_neg"), "count");
  return n.b.div(n.b.reduce<graph::ReduceSumOp>(terms, all, false), total, "mean");
}

static void nllLoss(Node &n) { n.out(0, negativeLogLikelihood(n, n.in(0), n.in(1), n.opt(2))); }

static void softmaxCrossEntropy(Node &n) {
  Val x = n.in(0);
  if (!x || x.rank() < 2 || !isFloat(x.type))
    return (void)n.fail("scores must be floating point of two dimensions or more");
  Val logp = n.b.create<graph::LogSoftmaxOp>(x, n.b.attr("dim", int64_t(1)), "log_softmax")[0];
  n.out(0, negativeLogLikelihood(n, logp, n.in(1), n.opt(2)));
  n.out(1, logp);
}

llvm::ArrayRef<OpRow> tessera::compiler::lossOps() {
  static const OpRow rows[] = {
      {"NegativeLogLikelihoodLoss", 12, kNewestOpset, nllLoss, ".t.", ""},
      {"SoftmaxCrossEntropyLoss", 12, kNewestOpset, softmaxCrossEntropy, ".t.", ""},
  };
  return rows;
}
