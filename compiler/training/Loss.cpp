//===- Loss.cpp ----------------------------------------------------------------------------------===//
#include "compiler/training/Loss.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

static std::string shapeText(ArrayRef<int64_t> shape) {
  return "[" + llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), ", ") + "]";
}

static SmallVector<int64_t> without(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> result(shape);
  result.erase(result.begin() + dim);
  return result;
}

static llvm::Expected<int64_t> classDim(const LossOptions &options, ArrayRef<int64_t> shape) {
  int64_t rank = int64_t(shape.size());
  if (rank < 2)
    return llvm::createStringError("this loss needs an output [n, classes] or [n, classes, ...], "
                                   "but output %lld has the shape %s",
                                   (long long)options.output, shapeText(shape).c_str());
  if (options.classDim) {
    int64_t dim = *options.classDim < 0 ? *options.classDim + rank : *options.classDim;
    if (dim < 0 || dim >= rank)
      return llvm::createStringError("class_dim=%lld is no dimension of output %lld, shape %s",
                                     (long long)*options.classDim, (long long)options.output, shapeText(shape).c_str());
    return dim;
  }
  if (options.targetShape) {
    for (int64_t dim : {int64_t(1), rank - 1}) // PyTorch's place of the classes first
      if (ArrayRef<int64_t>(*options.targetShape) == ArrayRef<int64_t>(without(shape, dim)))
        return dim;
    return llvm::createStringError(
        "targets of shape %s do not fit output %lld of shape %s: expected its shape without the "
        "dimension of the classes (the second or the last; class_dim=... names another)",
        shapeText(*options.targetShape).c_str(), (long long)options.output, shapeText(shape).c_str());
  }
  return rank <= 3 ? rank - 1 : 1;
}

llvm::Expected<RankedTensorType> targetType(const LossOptions &options, RankedTensorType output) {
  if (!isa<FloatType>(output.getElementType()))
    return llvm::createStringError("output %lld has integer elements: no loss can be computed of it",
                                   (long long)options.output);
  switch (options.kind) {
  case LossOptions::Output:
    if (output.getNumElements() != 1)
      return llvm::createStringError(
          "loss 'output' needs a model output of one element, but output %lld has the shape %s",
          (long long)options.output, shapeText(output.getShape()).c_str());
    return RankedTensorType();
  case LossOptions::MeanSquaredError:
  case LossOptions::BinaryCrossEntropy:
    return output;
  case LossOptions::CrossEntropy:
  case LossOptions::NegativeLogLikelihood:
    break;
  }
  llvm::Expected<int64_t> dim = classDim(options, output.getShape());
  if (!dim)
    return dim.takeError();
  return RankedTensorType::get(without(output.getShape(), *dim), IntegerType::get(output.getContext(), 64));
}

// Losses are computed in float32 at least.
static Value widen(OpWriter &b, Value x) {
  if (elementTypeOf(x).getIntOrFloatBitWidth() >= 32)
    return x;
  return b.cast(x, Float32Type::get(x.getContext()));
}

static double count(Value v) { return double(cast<RankedTensorType>(v.getType()).getNumElements()); }

static Value validTargets(OpWriter &b, const LossOptions &options, Value target) {
  return b.unary<NotOp>(b.binary<EqOp>(target, b.integer(*options.ignoreIndex)));
}

Value countPredictions(OpWriter &b, const LossOptions &options, Value target, Type real) {
  if (!options.hasClasses() || !options.ignoreIndex)
    return Value();
  b.setName("loss");
  return b.sumAll(b.cast(validTargets(b, options, target), real));
}

static LossValues classLoss(OpWriter &b, const LossOptions &options, Value x, Value target, bool withMetrics,
                            const LossShare &share) {
  int64_t dim = llvm::cantFail(classDim(options, shapeOf(x))); // targetType() checked it
  int64_t classes = shapeOf(x)[dim];
  x = widen(b, x);
  Type real = elementTypeOf(x);
  Value zero = b.constant(real, 0.0);
  Value logp = x;
  if (options.kind == LossOptions::CrossEntropy)
    logp = b.make<LogSoftmaxOp>(x, dim);

  SmallVector<int64_t> column(shapeOf(x)), row(rankOf(x), 1);
  column[dim] = 1;
  row[dim] = classes;
  Value numbers = b.make<IotaOp>(RankedTensorType::get(row, elementTypeOf(target)), dim);
  Value hot = b.binary<EqOp>(b.reshape(target, column), numbers);
  Value picked;
  if (options.labelSmoothing == 0) {
    picked = b.select(hot, logp, zero);
  } else {
    double rest = options.labelSmoothing / double(classes);
    Value weight = b.select(hot, b.constant(real, 1 - options.labelSmoothing + rest), b.constant(real, rest));
    picked = b.mul(logp, weight);
  }

  LossValues values;
  Value valid;
  if (options.ignoreIndex) {
    valid = validTargets(b, options, target);
    // An ignored index outside the classes selects nothing, so it needs no mask.
    if (options.labelSmoothing != 0 || (*options.ignoreIndex >= 0 && *options.ignoreIndex < classes))
      picked = b.select(b.reshape(valid, column), picked, zero);
    values.predictions = b.sumAll(b.cast(valid, real));
    values.loss = b.neg(b.div(b.sumAll(picked), share.predictions ? share.predictions : values.predictions));
  } else {
    values.predictions = b.constant(real, count(target));
    values.loss = b.mul(b.sumAll(picked), -1.0 / count(target) / double(share.parts));
  }
  values.seeds.push_back({values.loss, b.constant(real, 1.0)});

  if (withMetrics) {
    b.setName("correct");
    Value best = b.make<ArgMaxOp>(x, dim, /*keepdims=*/false);
    Value hit = b.binary<EqOp>(best, target);
    if (valid)
      hit = b.binary<AndOp>(hit, valid);
    values.correct = b.sumAll(b.cast(hit, real));
  }
  return values;
}

LossValues buildLoss(OpWriter &b, const LossOptions &options, Value output, Value target, bool withMetrics,
                     const LossShare &share) {
  b.setName("loss");
  if (options.hasClasses())
    return classLoss(b, options, output, target, withMetrics, share);

  Value x = widen(b, output);
  Type real = elementTypeOf(x);
  LossValues values;
  values.predictions = b.constant(real, count(output));
  if (options.kind == LossOptions::Output) {
    values.loss = b.mul(b.reshape(x, {}), 1.0 / double(share.parts));
    values.seeds.push_back({values.loss, b.constant(real, 1.0)});
    return values;
  }

  target = b.cast(target, real);
  double scale = 1.0 / count(output) / double(share.parts);
  Value gradient;
  if (options.kind == LossOptions::MeanSquaredError) {
    Value d = b.sub(x, target);
    values.loss = b.mul(b.sumAll(b.mul(d, d)), scale);
    b.setName("loss.grad", "loss");
    gradient = b.mul(d, 2 * scale);
  } else {
    // max(x, 0) - x t + log(1 + e^-|x|) does not overflow. Its derivative, sigmoid(x) - t, is given explicitly, because
    // automatic differentiation of this form would give 0 - t at x = 0.
    Value tail = b.unary<LogOp>(b.add(b.unary<ExpOp>(b.neg(b.unary<AbsOp>(x))), 1.0));
    Value each = b.add(b.sub(b.unary<ReluOp>(x), b.mul(x, target)), tail);
    values.loss = b.mul(b.sumAll(each), scale);
    b.setName("loss.grad", "loss");
    gradient = b.mul(b.sub(b.unary<SigmoidOp>(x), target), scale);
  }
  values.seeds.push_back({x, gradient});
  return values;
}

} // namespace tessera::compiler
