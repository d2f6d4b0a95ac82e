//===- Norm.cpp - normalisations, softmax, dropout --------------------------------------------===//

#include "compiler/import/ops/Reduce.h"

using namespace tessera;
using namespace tessera::compiler;

//===----------------------------------------------------------------------------------------------===//
// Batch normalisation
//===----------------------------------------------------------------------------------------------===//

/// [c] as [1, c, 1, ...] for a tensor of the given rank.
static Val perChannel(Node &n, const Val &v, int64_t rank, llvm::StringRef suffix) {
  if (!v)
    return {};
  Shape shape(rank, 1);
  shape[1] = v.shape[0];
  return n.b.reshape(v, shape, suffix);
}

/// x * a + s with a = scale / sqrt(var + eps) and s = bias - mean * a, which is two operations per element, as in
/// PyTorch. Nothing is folded into the weights of the layer before.
static Val batchNormInference(Node &n, const Val &x, const Val &scale, const Val &bias, const Val &mean, const Val &var,
                              double epsilon) {
  Val inverse = n.b.unary<graph::RsqrtOp>(n.b.add(var, n.b.scalarLike(var, epsilon), "var_eps"), "rsqrt");
  Val a = n.b.mul(scale, inverse, "scale");
  Val s = n.b.sub(bias, n.b.mul(mean, a, "mean_scaled"), "shift");
  return n.b.add(n.b.mul(x, perChannel(n, a, x.rank(), "scale_reshape")), perChannel(n, s, x.rank(), "shift_reshape"),
                 "shifted");
}

/// new = momentum * old + factor * batch, and the function returns it.
static Val updateState(Node &n, int input, const Val &old, const Val &batch, double momentum, double factor,
                       const std::string &what) {
  Val kept = n.b.scale(old, momentum, what + "_old");
  Val fresh = n.b.add(kept, n.b.scale(batch, factor, what + "_batch"), what + "_update");
  if (fresh)
    n.function.setState(n.proto.input(input), fresh);
  return fresh;
}

static void batchNorm(Node &n) {
  Val x = n.in(0), scale = n.in(1), bias = n.in(2), mean = n.in(3), var = n.in(4);
  double epsilon = n.attrFloat("epsilon", 1e-5), momentum = n.attrFloat("momentum", 0.9);
  // Before opset 14 a node is in training mode if it has outputs for the statistics.
  bool marked = n.attrInt("training_mode", 0) != 0;
  if (n.opset < 14)
    marked = n.proto.output_size() > 1;
  if (n.opset < 9 && n.attrInt("spatial", 1) == 0)
    return (void)n.fail("spatial=0 is not supported");
  if (n.failed())
    return;
  if (x.rank() < 2)
    return (void)n.fail("the input " + shapeText(x.shape) + " has no channel dimension");
  for (const Val &v : {scale, bias, mean, var})
    if (v.rank() != 1 || v.shape[0] != x.shape[1] || v.type != x.type || !isFloat(v.type))
      return (void)n.fail("scale, bias, mean and variance must be vectors of " + llvm::Twine(x.shape[1]) + " " +
                          dtypeName(x.type) + ", one of them is " + shapeText(v.shape) + " " + dtypeName(v.type));
  bool literal = n.function.literal();
  bool training = literal ? marked : n.function.batchStatistics(n.proto, marked);
  if (!training) {
    n.out(0, batchNormInference(n, x, scale, bias, mean, var, epsilon));
    n.out(1, mean);
    n.out(2, var);
    return;
  }
  double count = double(x.size()) / double(x.shape[1]);
  if (count < 2)
    return (void)n.fail("training needs more than one value per channel; the input is " + shapeText(x.shape));
  auto results = n.b.create<graph::BatchNormOp>({x, scale, bias}, n.b.attrF64("epsilon", epsilon));
  n.out(0, results[0]);
  if (literal) { // ONNX's own formula: the running variance is biased
    auto running = [&](const Val &old, const Val &batch, const std::string &what) {
      return n.b.add(n.b.scale(old, momentum, what + "_old"), n.b.scale(batch, 1 - momentum, what + "_batch"), what);
    };
    n.out(1, running(mean, results[1], "running_mean"));
    n.out(2, running(var, results[2], "running_var"));
    return;
  }
  if (!n.function.isState(n.proto.input(3)) || !n.function.isState(n.proto.input(4)))
    return; // the running statistics are no states, so there is nothing to update
  // ONNX's momentum is the weight of the old value, PyTorch's that of the new one. The running variance is unbiased, as
  // in PyTorch.
  Val oldMean = n.function.stateValue(n.proto.input(3)), oldVar = n.function.stateValue(n.proto.input(4));
  n.out(1, updateState(n, 3, oldMean, results[1], momentum, 1 - momentum, "running_mean"));
  n.out(2, updateState(n, 4, oldVar, results[2], momentum, (1 - momentum) * (count / (count - 1)), "running_var"));
}

//===----------------------------------------------------------------------------------------------===//
// Layer, instance and group normalisation
//===----------------------------------------------------------------------------------------------===//

/// (x - mean) * rsqrt(var + eps) over dims; the product is called `last`.
static Val normalize(Node &n, const Val &x, llvm::ArrayRef<int64_t> dims, double epsilon, llvm::StringRef last = "",
                     Val *meanOut = nullptr, Val *inverseOut = nullptr) {
  Val mean = n.b.mean(x, dims, true, "mean");
  Val centered = n.b.sub(x, mean, "centered");
  Val var = n.b.mean(n.b.mul(centered, centered, "square"), dims, true, "var");
  Val inverse = n.b.unary<graph::RsqrtOp>(n.b.add(var, n.b.scalarLike(x, epsilon), "var_eps"), "rsqrt");
  if (meanOut)
    *meanOut = mean;
  if (inverseOut)
    *inverseOut = inverse;
  return n.b.mul(centered, inverse, last);
}

static Shape dimsFrom(int64_t first, int64_t rank) {
  Shape dims;
  for (int64_t d = first; d < rank; ++d)
    dims.push_back(d);
  return dims;
}

static bool checkFloat(Node &n, const Val &x) {
  if (x && isFloat(x.type))
    return true;
  if (x)
    n.fail("an input of type " + dtypeName(x.type) + " is not supported: it must be floating point");
  return false;
}

static void layerNorm(Node &n) {
  Val x = n.in(0), scale = n.in(1), bias = n.opt(2);
  int64_t first = n.attrInt("axis", -1), stash = n.attrInt("stash_type", 1);
  double epsilon = n.attrFloat("epsilon", 1e-5);
  if (!checkFloat(n, x) || n.failed())
    return;
  if (stash != 1)
    return (void)n.fail("stash_type must be 1 (float)");
  first = n.axis(first, x.rank());
  // Statistics of 16-bit inputs are taken in float, as stash_type says.
  DType type = x.type == DType::F64 ? DType::F64 : DType::F32;
  Val wide = n.b.cast(x, type, "wide"), mean, inverse;
  Val y = n.b.cast(normalize(n, wide, dimsFrom(first, x.rank()), epsilon, "", &mean, &inverse), x.type, "narrow");
  y = n.b.mul(y, scale, "scale");
  if (bias)
    y = n.b.add(y, bias, "bias");
  if (y && y.shape != x.shape)
    return (void)n.fail("scale or bias do not broadcast to the input " + shapeText(x.shape));
  n.out(0, y);
  n.out(1, mean);
  n.out(2, inverse);
}

/// x / sqrt(mean of x^2 + epsilon) * scale
static void rmsNorm(Node &n) {
  Val x = n.in(0), scale = n.in(1);
  int64_t first = n.attrInt("axis", -1), stash = n.attrInt("stash_type", 1);
  double epsilon = n.attrFloat("epsilon", 1e-5);
  if (!checkFloat(n, x) || !checkFloat(n, scale) || n.failed())
    return;
  if (stash != 1)
    return (void)n.fail("stash_type must be 1 (float)");
  first = n.axis(first, x.rank());
  if (n.failed())
    return;
  Val wide = n.b.cast(x, x.type == DType::F64 ? DType::F64 : DType::F32, "wide");
  Val square = n.b.mean(n.b.mul(wide, wide, "square"), dimsFrom(first, x.rank()), true, "mean");
  Val inverse = n.b.unary<graph::RsqrtOp>(n.b.add(square, n.b.scalarLike(wide, epsilon), "mean_eps"), "rsqrt");
  Val y = n.b.mul(n.b.cast(n.b.mul(wide, inverse), scale.type, "narrow"), scale, "scale");
  if (y && y.shape != x.shape)
    return (void)n.fail("the scale " + shapeText(scale.shape) + " does not broadcast to the input " +
                        shapeText(x.shape));
  n.out(0, y);
}

static void instanceNorm(Node &n) {
  Val x = n.in(0), scale = n.in(1), bias = n.in(2);
  double epsilon = n.attrFloat("epsilon", 1e-5);
  if (!checkFloat(n, x) || n.failed())
    return;
  if (x.rank() < 3 || scale.rank() != 1 || bias.rank() != 1 || scale.shape[0] != x.shape[1] ||
      bias.shape[0] != x.shape[1])
    return (void)n.fail("scale " + shapeText(scale.shape) + " and bias " + shapeText(bias.shape) +
                        " do not fit the input " + shapeText(x.shape));
  Val y = normalize(n, x, dimsFrom(2, x.rank()), epsilon);
  y = n.b.mul(y, perChannel(n, scale, x.rank(), "scale_reshape"), "scale");
  n.out(0, n.b.add(y, perChannel(n, bias, x.rank(), "bias_reshape"), "bias"));
}

static void groupNorm(Node &n) {
  Val x = n.in(0), scale = n.in(1), bias = n.in(2);
  int64_t groups = n.attrInt("num_groups", 0);
  double epsilon = n.attrFloat("epsilon", 1e-5);
  n.ignoreAttr("stash_type");
  if (!checkFloat(n, x) || n.failed())
    return;
  // Opset 18 to 20: one scale per group; 21: one per channel.
  if (x.rank() < 3 || groups < 1 || x.shape[1] % groups != 0 || scale.rank() != 1 || bias.shape != scale.shape ||
      scale.shape[0] != (n.opset < 21 ? groups : x.shape[1]))
    return (void)n.fail("num_groups, scale " + shapeText(scale.shape) + " and bias " + shapeText(bias.shape) +
                        " do not fit the input " + shapeText(x.shape));
  Shape grouped{x.shape[0], groups, x.shape[1] / groups};
  grouped.append(x.shape.begin() + 2, x.shape.end());
  Val y = normalize(n, n.b.reshape(x, grouped, "group"), dimsFrom(2, x.rank() + 1), epsilon);
  bool perGroup = n.opset < 21;
  if (!perGroup)
    y = n.b.reshape(y, x.shape, "ungroup");
  if (!y)
    return;
  int64_t rank = y.rank();
  y = n.b.mul(y, perChannel(n, scale, rank, "scale_reshape"), "scale");
  y = n.b.add(y, perChannel(n, bias, rank, "bias_reshape"), "bias");
  n.out(0, n.b.reshape(y, x.shape, "ungroup"));
}

/// x / (bias + alpha / size * sum of x^2 over the `size` channels around)^beta. The sum over `size` is an average
/// pooling over the channel dimension, with all dimensions behind it merged into one.
static void localResponseNorm(Node &n) {
  Val x = n.in(0);
  int64_t size = n.attrInt("size", 0);
  double alpha = n.attrFloat("alpha", 0.0001), beta = n.attrFloat("beta", 0.75);
  double bias = n.attrFloat("bias", 1);
  if (!checkFloat(n, x) || n.failed())
    return;
  if (x.rank() < 2 || size < 1 || size > 2 * x.shape[1])
    return (void)n.fail("size " + llvm::Twine(size) + " does not fit the channels of " + shapeText(x.shape));
  int64_t rest = x.size() / std::max<int64_t>(1, x.shape[0] * x.shape[1]);
  Val squares = n.b.reshape(n.b.mul(x, x, "square"), {x.shape[0], 1, x.shape[1], rest}, "planes");
  Val mean = n.b.create<graph::AvgPoolOp>(squares,
                                          {n.b.attr("kernel", {size, 1}), n.b.attr("strides", {1, 1}),
                                           n.b.attr("pads", {(size - 1) / 2, 0, size / 2, 0}),
                                           n.b.attrBool("include_pad", true)},
                                          "mean")[0];
  mean = n.b.reshape(mean, x.shape, "mean_reshape");
  Val base = n.b.add(n.b.scale(mean, alpha, "scaled"), n.b.scalarLike(x, bias), "base");
  n.out(0, n.b.mul(x, n.b.binary<graph::PowOp>(base, n.b.scalarLike(x, -beta), "factor")));
}

/// (x - mean) / (deviation + 1e-9), as ONNX's function has it.
static void meanVarianceNorm(Node &n) {
  Val x = n.in(0);
  Shape given = n.attrInts("axes").value_or(Shape{0, 2, 3});
  if (!checkFloat(n, x) || n.failed())
    return;
  Shape dims = n.axes(given, x.rank());
  if (n.failed())
    return;
  Val centered = n.b.sub(x, n.b.mean(x, dims, true, "mean"), "centered");
  Val var = n.b.mean(n.b.mul(centered, centered, "square"), dims, true, "var");
  Val deviation = n.b.add(rootOfSquares(n, var, "deviation"), n.b.scalarLike(x, 1e-9), "plus_eps");
  n.out(0, n.b.div(centered, deviation));
}

/// x divided by the sum of its absolute values (p = 1), or by the root of the sum of its squares (p = 2).
static void lpNormalization(Node &n) {
  Val x = n.floatIn(0);
  int64_t p = n.attrInt("p", 2), axis = n.axis(n.attrInt("axis", -1), x.rank());
  if (n.failed())
    return;
  if (p != 1 && p != 2)
    return (void)n.fail("p must be 1 or 2");
  Val terms = p == 1 ? n.b.unary<graph::AbsOp>(x, "abs") : n.b.mul(x, x, "square");
  Val norm = n.b.reduce<graph::ReduceSumOp>(terms, {axis}, true, "sum");
  if (p == 2)
    norm = rootOfSquares(n, norm, "norm");
  // Of zeros alone the result is zero.
  Val none = n.b.binary<graph::EqOp>(norm, n.b.scalarLike(norm, 0), "is_zero");
  n.out(0, n.b.div(x, n.b.select(none, n.b.scalarLike(norm, 1), norm, "divisor")));
}

//===----------------------------------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------------------------------===//

/// Up to opset 12 all dimensions from `axis` on count as one, and axis = rank is allowed. `build` computes y from x and
/// the dimension.
template <typename Build> static void alongAxis(Node &n, Build build) {
  Val x = n.in(0);
  int64_t axis = n.attrInt("axis", n.opset < 13 ? 1 : -1);
  if (!checkFloat(n, x) || n.failed())
    return;
  if (x.rank() == 0)
    return (void)n.fail("the input is a scalar");
  if (n.opset < 13 && axis == x.rank())
    return (void)n.fail("axis " + llvm::Twine(axis) + " leaves nothing to sum over");
  axis = n.axis(axis, x.rank());
  bool together = n.opset < 13 && axis != x.rank() - 1;
  Val y = x;
  if (together) {
    Shape flat(x.shape.begin(), x.shape.begin() + axis);
    flat.push_back(x.size() / std::max<int64_t>(1, *elementCount(flat)));
    y = n.b.reshape(x, flat, "flatten");
  }
  if (!n.failed())
    y = build(y, axis);
  n.out(0, together ? n.b.reshape(y, x.shape, "unflatten") : y);
}

template <typename OpTy> static void softmax(Node &n) {
  alongAxis(n, [&](const Val &x, int64_t axis) { return n.b.create<OpTy>(x, n.b.attr("dim", axis))[0]; });
}

/// 1 at the first maximum, 0 elsewhere.
static void hardmax(Node &n) {
  alongAxis(n, [&](const Val &x, int64_t axis) {
    Val best = n.b.create<graph::ArgMaxOp>(x, {n.b.attr("dim", axis), n.b.attrBool("keepdims", true)}, "argmax")[0];
    Shape line(x.rank(), 1);
    line[axis] = x.shape[axis];
    Val hit = n.b.binary<graph::EqOp>(best, n.b.iota(DType::I64, line, axis, "places"), "hit");
    return n.b.cast(hit, x.type);
  });
}

//===----------------------------------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------------------------------===//

/// y = x * (random < ratio ? 0 : 1 / (1 - ratio)). Random numbers depend on the seed, the node's
/// place among the random nodes, the step and the element's global index: not on the mesh.
static void dropout(Node &n) {
  Val x = n.in(0);
  double ratio = n.opset < 12 ? n.attrFloat("ratio", 0.5) : 0.5;
  bool training = n.function.training();
  if (n.opset >= 12) {
    n.ignoreAttr("seed"); // of another generator; ImportOptions::seed is used
    ratio = n.knownFloat(1, "ratio").value_or(ratio);
    auto mode = n.knownFloat(2, "training_mode");
    bool marked = mode && *mode != 0;
    if (n.function.literal() && marked && ratio != 0)
      n.fail("its mask is drawn at random, and only training does that");
    training = training && marked;
  }
  if (!checkFloat(n, x) || n.failed())
    return;
  if (!(ratio >= 0 && ratio <= 1))
    return (void)n.fail("the ratio must lie in [0, 1]");
  Val all = n.b.known(Constant::splatInt(DType::I1, x.shape, 1));
  if (!training || ratio == 0) {
    n.out(0, x);
    n.out(1, all);
    return;
  }
  if (ratio == 1) {
    n.out(0, n.b.scale(x, 0));
    n.out(1, n.b.known(Constant::splatInt(DType::I1, x.shape, 0)));
    return;
  }
  DType type = x.type == DType::F64 ? DType::F64 : DType::F32;
  Val random = n.b.random(n.function.step(), type, x.shape, n.function.seed(), n.function.nextStream(), "random");
  Val drop = n.b.binary<graph::LtOp>(random, n.b.scalarLike(random, ratio), "drop");
  Val mask = n.b.select(drop, n.b.scalarLike(x, 0), n.b.scalarLike(x, 1 / (1 - ratio)), "mask");
  n.out(0, n.b.mul(x, mask));
  if (n.wanted(1))
    n.out(1, n.b.unary<graph::NotOp>(drop, "keep"));
}

llvm::ArrayRef<OpRow> tessera::compiler::normOps() {
  static const OpRow rows[] = {
      {"BatchNormalization", 7, kNewestOpset, batchNorm, ".somv", "scale, bias and statistics of the input's type"},
      {"Dropout", 7, kNewestOpset, dropout, ".ct", "ratio and training_mode known at import"},
      {"GroupNormalization", 18, kNewestOpset, groupNorm, ".so", ""},
      {"Hardmax", 7, kNewestOpset, hardmax, "t", ""},
      {"InstanceNormalization", 6, kNewestOpset, instanceNorm, ".so", ""},
      {"LRN", 7, kNewestOpset, localResponseNorm, ".", ""},
      {"LayerNormalization", 17, kNewestOpset, layerNorm, ".so", "stash_type 1"},
      {"LogSoftmax", 7, kNewestOpset, softmax<graph::LogSoftmaxOp>, ".", ""},
      {"LpNormalization", 1, kNewestOpset, lpNormalization, ".", ""},
      {"MeanVarianceNormalization", 9, kNewestOpset, meanVarianceNorm, ".", ""},
      {"RMSNormalization", 23, kNewestOpset, rmsNorm, ".s", "stash_type 1"},
      {"Softmax", 7, kNewestOpset, softmax<graph::SoftmaxOp>, ".", ""},
  };
  return rows;
}
