//===- ConvPool.cpp - convolutions and pooling ------------------------------------------------===//

#include "compiler/import/ops/ConvPool.h"

using namespace tessera;
using namespace tessera::compiler;

constexpr int64_t kMaxWindow = 1 << 20; // bounds sums of paddings and extents far from overflow

std::optional<Window> tessera::compiler::readWindow(Node &n, const Val &x, Shape kernel) {
  Window w;
  int64_t spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3) {
    n.fail("the input " + shapeText(x.shape) + " has " + llvm::Twine(spatial) +
           " spatial dimensions; 1 to 3 are supported");
    return std::nullopt;
  }
  w.kernel = std::move(kernel);
  w.strides = n.attrInts("strides").value_or(Shape(spatial, 1));
  w.dilations = n.attrInts("dilations").value_or(Shape(spatial, 1));
  w.pads = n.attrInts("pads").value_or(Shape(2 * spatial, 0));
  auto inRange = [&](const Shape &values, int64_t count, int64_t least) {
    return int64_t(values.size()) == count && llvm::all_of(values, [&](int64_t v) { return v >= least; });
  };
  if (!inRange(w.kernel, spatial, 1) || !inRange(w.strides, spatial, 1) || !inRange(w.dilations, spatial, 1) ||
      !inRange(w.pads, 2 * spatial, 0)) {
    n.fail("kernel_shape, strides and dilations need " + llvm::Twine(spatial) + " positive numbers and pads " +
           llvm::Twine(2 * spatial) + " that are not negative");
    return std::nullopt;
  }
  for (auto [what, values] :
       {std::pair("kernel_shape", &w.kernel), {"strides", &w.strides}, {"dilations", &w.dilations}, {"pads", &w.pads}})
    for (int64_t v : *values)
      if (v > kMaxWindow) {
        n.fail(llvm::Twine(what) + " has " + llvm::Twine(v) + ", which is too large; at most " +
               llvm::Twine(kMaxWindow) + " is supported");
        return std::nullopt;
      }
  return w;
}

/// auto_pad as explicit pads, for operators that slide a window over x.
static bool applyAutoPad(Node &n, const Val &x, Window &w) {
  std::string mode = n.attrString("auto_pad", "NOTSET");
  if (mode == "NOTSET")
    return true;
  if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    n.fail("auto_pad='" + mode + "' is unknown");
    return false;
  }
  size_t spatial = w.kernel.size();
  for (size_t i = 0; i < spatial; ++i) {
    int64_t extent = x.shape[i + 2], out = (extent - 1) / w.strides[i] + 1;
    int64_t total = (out - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 - extent;
    if (mode == "VALID" || total < 0)
      total = 0;
    w.pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[spatial + i] = total - w.pads[i];
  }
  return true;
}

Val tessera::compiler::addBias(Node &n, const Val &y, const Val &bias) {
  if (!y || !bias)
    return y;
  // PyTorch's exporter (onnxscript 0.7) gives a 3-D convolution without bias zeros of shape [channels, 2].
  const bool zeros = bias.known && bias.known->isSplat() && bias.known->floatAt(0) == 0;
  if (zeros && bias.shape != Shape{y.shape[1]})
    return y;
  if (bias.rank() != 1 || bias.shape[0] != y.shape[1])
    return n.fail("the bias " + shapeText(bias.shape) + " does not fit " + llvm::Twine(y.shape[1]) + " channels");
  Shape shape(y.rank(), 1);
  shape[1] = y.shape[1];
  return n.b.add(y, n.b.reshape(bias, shape, "bias_reshape"), "bias");
}

static bool checkOperands(Node &n, const Val &x, const Val &w) {
  if (x && w && x.rank() == w.rank() && x.rank() >= 3 && x.type == w.type && isFloat(x.type))
    return true;
  if (x && w)
    n.fail("the input " + shapeText(x.shape) + " " + dtypeName(x.type) + " and the weights " + shapeText(w.shape) +
           " " + dtypeName(w.type) + " must be floating point tensors of one type and one rank, at least 3");
  return false;
}

Val tessera::compiler::convolution(Node &n, const Val &x, const Val &weight, llvm::StringRef suffix) {
  if (!checkOperands(n, x, weight))
    return {};
  Shape kernel(weight.shape.begin() + 2, weight.shape.end());
  if (auto given = n.attrInts("kernel_shape"); given && *given != kernel)
    return n.fail("kernel_shape " + shapeText(*given) + " differs from that of the weights " + shapeText(weight.shape));
  auto w = readWindow(n, x, kernel);
  if (!w || !applyAutoPad(n, x, *w))
    return {};
  int64_t groups = n.attrInt("group", 1);
  if (groups < 1 || groups > kMaxWindow)
    return n.fail("group must be positive");
  return n.b.create<graph::ConvOp>({x, weight},
                                   {n.b.attr("strides", w->strides), n.b.attr("pads", w->pads),
                                    n.b.attr("dilations", w->dilations), n.b.attr("groups", groups)},
                                   suffix)[0];
}

static void conv(Node &n) { n.out(0, addBias(n, convolution(n, n.in(0), n.in(1)), n.opt(2))); }

/// A depthwise convolution of [b, c, length]. The input `past` [b, c, k - 1] precedes the elements, and an output holds
/// the last k - 1 elements for the next call.
static void causalConv(Node &n) {
  Val x = n.floatIn(0), weight = n.in(1), bias = n.opt(2), past = n.opt(3);
  std::string activation = n.attrString("activation", "none");
  if (n.failed())
    return;
  if (activation != "none" && activation != "silu" && activation != "swish")
    return (void)n.fail("activation='" + activation + "' is unknown");
  if (x.rank() != 3 || weight.rank() != 3 || weight.shape[0] != x.shape[1] || weight.shape[1] != 1 ||
      weight.type != x.type)
    return (void)n.fail("the weights " + shapeText(weight.shape) + " do not fit the input " + shapeText(x.shape) +
                        ": they must be [channels, 1, taps] for [batch, channels, length]");
  const int64_t before = weight.shape[2] - 1;
  Shape kept{x.shape[0], x.shape[1], before};
  if (past && past.shape != kept)
    return (void)n.fail("past_state has the shape " + shapeText(past.shape) + ", not " + shapeText(kept));
  Val all = past ? n.b.concat({past, x}, 2, "with_past") : n.b.pad(x, {0, 0, before}, {0, 0, 0}, 0, "with_past");
  if (!all)
    return;
  const bool plain = activation == "none";
  Val y =
      n.b.create<graph::ConvOp>({all, weight}, {n.b.attr("strides", Shape{1}), n.b.attr("pads", {0, 0}),
                                                n.b.attr("dilations", Shape{1}), n.b.attr("groups", x.shape[1])})[0];
  y = addBias(n, y, bias);
  n.out(0, plain ? y : n.b.mul(y, n.b.unary<graph::SigmoidOp>(y, "sigmoid"), "activated"));
  if (n.wanted(1))
    n.out(1, n.b.slice(all, {0, 0, all.shape[2] - before}, all.shape, {1, 1, 1}, "present"));
}

static void convTranspose(Node &n) {
  Val x = n.in(0), weight = n.in(1);
  if (!checkOperands(n, x, weight))
    return;
  Shape kernel(weight.shape.begin() + 2, weight.shape.end());
  if (auto given = n.attrInts("kernel_shape"); given && *given != kernel)
    return (void)n.fail("kernel_shape " + shapeText(*given) + " differs from that of the weights " +
                        shapeText(weight.shape));
  auto w = readWindow(n, x, kernel);
  if (!w)
    return;
  int64_t groups = n.attrInt("group", 1);
  size_t spatial = kernel.size();
  Shape extra = n.attrInts("output_padding").value_or(Shape(spatial, 0));
  auto given = n.attrInts("output_shape");
  std::string mode = n.attrString("auto_pad", "NOTSET");
  if (groups < 1 || groups > kMaxWindow || x.shape[1] != weight.shape[0] || weight.shape[0] % groups != 0 ||
      extra.size() != spatial || llvm::any_of(extra, [](int64_t v) { return v < 0 || v > kMaxWindow; }) ||
      (given && given->size() != spatial))
    return (void)n.fail("group, output_padding or output_shape do not fit the input " + shapeText(x.shape) +
                        " and the weights " + shapeText(weight.shape));
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return (void)n.fail("auto_pad='" + mode + "' is unknown");
  Shape sizes(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    int64_t full = w->strides[i] * (x.shape[i + 2] - 1) + extra[i] + (kernel[i] - 1) * w->dilations[i] + 1;
    bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (given || same) {
      sizes[i] = given ? (*given)[i] : x.shape[i + 2] * w->strides[i];
      int64_t total = std::max<int64_t>(0, full - sizes[i]);
      w->pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w->pads[spatial + i] = total - w->pads[i];
    } else {
      sizes[i] = full - w->pads[i] - w->pads[spatial + i];
    }
    // Where output_shape exceeds the positions that the input contributes to, the end is zeros, as with output_padding.
    if (sizes[i] < 1 || sizes[i] > full + w->strides[i])
      return (void)n.fail("the output's extent " + llvm::Twine(sizes[i]) + " is not possible");
  }
  Val y = n.b.create<graph::ConvInputGradOp>(
      {x, weight}, {n.b.attr("input_sizes", sizes), n.b.attr("strides", w->strides), n.b.attr("pads", w->pads),
                    n.b.attr("dilations", w->dilations), n.b.attr("groups", groups)})[0];
  n.out(0, addBias(n, y, n.opt(2)));
}

/// Enlarges the upper pads so that rounding down gives the output extents of ceil_mode. The last window may extend
/// beyond the end, but must start inside the input or the lower padding. Returns by how much each upper pad grew.
static Shape applyCeilMode(const Val &x, Window &w) {
  Shape grown(w.kernel.size(), 0);
  size_t spatial = w.kernel.size();
  for (size_t i = 0; i < spatial; ++i) {
    int64_t extent = x.shape[i + 2], size = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t room = extent + w.pads[i] + w.pads[spatial + i] - size;
    if (room < 0)
      continue;
    int64_t out = (room + w.strides[i] - 1) / w.strides[i] + 1;
    if ((out - 1) * w.strides[i] >= extent + w.pads[i])
      --out;
    int64_t need = (out - 1) * w.strides[i] + size - extent - w.pads[i];
    grown[i] = std::max<int64_t>(0, need - w.pads[spatial + i]);
    w.pads[spatial + i] += grown[i];
  }
  return grown;
}

std::optional<Window> tessera::compiler::readPool(Node &n, const Val &x, Shape &ceilGrew) {
  if (!x)
    return std::nullopt;
  if (x.type == DType::I1) {
    n.fail("pooling of booleans is not supported");
    return std::nullopt;
  }
  auto kernel = n.attrInts("kernel_shape");
  if (!kernel) {
    n.fail("the attribute kernel_shape is missing");
    return std::nullopt;
  }
  auto w = readWindow(n, x, *kernel);
  if (!w || !applyAutoPad(n, x, *w))
    return std::nullopt;
  ceilGrew = n.attrInt("ceil_mode", 0) != 0 ? applyCeilMode(x, *w) : Shape(w->kernel.size(), 0);
  for (size_t i = 0, count = w->kernel.size(); i < count; ++i) {
    int64_t size = (w->kernel[i] - 1) * w->dilations[i] + 1, end = x.shape[i + 2] + w->pads[i];
    int64_t last = std::max<int64_t>(0, end + w->pads[count + i] - size) / w->strides[i] * w->strides[i];
    if (w->pads[i] >= size || last >= end) {
      n.fail("the padding of dimension " + llvm::Twine(i + 2) + " is so large that a window lies outside the input");
      return std::nullopt;
    }
  }
  return w;
}

static void maxPool(Node &n) {
  Val x = n.in(0);
  Shape grew;
  auto w = readPool(n, x, grew);
  if (!w)
    return;
  bool columnMajor = n.attrInt("storage_order", 0) != 0; // of the second output
  if (n.wanted(1))
    n.out(1, indicesOfMaxima(n, x, *w, columnMajor));
  // Small integers are exact in float, wider ones in double.
  DType type = isFloat(x.type) ? x.type : byteSize(x.type) == 1 ? DType::F32 : DType::F64;
  Val y = n.b.create<graph::MaxPoolOp>(n.b.cast(x, type, "wide"),
                                       {n.b.attr("kernel", w->kernel), n.b.attr("strides", w->strides),
                                        n.b.attr("pads", w->pads), n.b.attr("dilations", w->dilations)},
                                       type == x.type ? "" : "pool")[0];
  n.out(0, n.b.cast(y, x.type));
}

/// Corrects a mean over whole windows for ceil_mode. A window that extends beyond the padded input has fewer elements,
/// so its sum is divided by their number.
static Val recount(Node &n, Val y, const Val &x, const Window &w, const Shape &grew) {
  const size_t spatial = w.kernel.size();
  int last = -1;
  for (size_t i = 0; i < spatial; ++i)
    last = grew[i] ? int(i) : last;
  for (size_t i = 0; y && i < spatial; ++i) {
    if (grew[i] == 0)
      continue;
    const int64_t end = x.shape[i + 2] + w.pads[i] + w.pads[spatial + i] - grew[i];
    Shape shape(y.rank(), 1);
    shape[i + 2] = y.shape[i + 2];
    std::vector<double> factors;
    for (int64_t o = 0; o < shape[i + 2]; ++o)
      factors.push_back(double(w.kernel[i]) / double(std::min(w.kernel[i], end - o * w.strides[i])));
    Val factor = n.b.known(Constant::floats(y.type, shape, std::move(factors)));
    y = n.b.mul(y, factor, int(i) == last ? "" : "recounted");
  }
  return y;
}

/// A mean over what lies in the input, or in its own padding, too: the sum times a factor per dimension.
static Val dilatedAverage(Node &n, const Val &x, const Window &w, bool includePad, const Shape &grew) {
  const size_t spatial = w.kernel.size();
  Val y = windowSum(n, x, w, "sum");
  for (size_t i = 0; y && i < spatial; ++i) {
    const int64_t extent = x.shape[i + 2], low = includePad ? 0 : w.pads[i];
    const int64_t high = w.pads[i] + extent + (includePad ? w.pads[spatial + i] - grew[i] : 0);
    Shape shape(y.rank(), 1);
    shape[i + 2] = y.shape[i + 2];
    std::vector<double> factors;
    for (int64_t o = 0; o < shape[i + 2]; ++o) {
      int64_t count = 0;
      for (int64_t k = 0; k < w.kernel[i]; ++k) {
        int64_t at = o * w.strides[i] + k * w.dilations[i];
        count += at >= low && at < high;
      }
      factors.push_back(1 / double(std::max<int64_t>(1, count)));
    }
    Val factor = n.b.known(Constant::floats(y.type, shape, std::move(factors)));
    y = n.b.mul(y, factor, i + 1 == spatial ? "" : "mean" + std::to_string(i));
  }
  return y;
}

static void averagePool(Node &n) {
  Val x = n.in(0);
  if (x && !isFloat(x.type))
    return (void)n.fail("an average of " + dtypeName(x.type) + " is not supported");
  Shape grew;
  auto w = readPool(n, x, grew);
  if (!w)
    return;
  bool includePad = n.attrInt("count_include_pad", 0) != 0;
  if (llvm::any_of(w->dilations, [](int64_t d) { return d != 1; }))
    return n.out(0, dilatedAverage(n, x, *w, includePad, grew));
  const bool whole = !includePad || llvm::all_of(grew, [](int64_t g) { return g == 0; });
  Val y = n.b.create<graph::AvgPoolOp>(x,
                                       {n.b.attr("kernel", w->kernel), n.b.attr("strides", w->strides),
                                        n.b.attr("pads", w->pads), n.b.attrBool("include_pad", includePad)},
                                       whole ? "" : "all")[0];
  n.out(0, whole ? y : recount(n, y, x, *w, grew));
}

static Shape spatialDims(Node &n, const Val &x) {
  Shape dims;
  if (x && x.rank() < 3)
    n.fail("the input " + shapeText(x.shape) + " has no spatial dimension");
  for (int64_t d = 2; d < x.rank(); ++d)
    dims.push_back(d);
  return dims;
}

static void globalAveragePool(Node &n) {
  Val x = n.in(0);
  Shape dims = spatialDims(n, x);
  if (!n.failed())
    n.out(0, n.b.mean(x, dims, true));
}

static void globalMaxPool(Node &n) {
  Val x = n.in(0);
  Shape dims = spatialDims(n, x);
  if (!n.failed())
    n.out(0, n.b.reduce<graph::ReduceMaxOp>(x, dims, true));
}

llvm::ArrayRef<OpRow> tessera::compiler::convPoolOps() {
  static const OpRow rows[] = {
      {"AveragePool", 7, kNewestOpset, averagePool, ".", "1 to 3 spatial dimensions"},
      {"CausalConvWithState", 27, kNewestOpset, causalConv, ".kb.", ""},
      {"Conv", 7, kNewestOpset, conv, ".kb", "1 to 3 spatial dimensions"},
      {"ConvTranspose", 7, kNewestOpset, convTranspose, ".kb", "1 to 3 spatial dimensions"},
      {"GlobalAveragePool", 1, kNewestOpset, globalAveragePool, ".", ""},
      {"GlobalMaxPool", 1, kNewestOpset, globalMaxPool, ".", ""},
      {"MaxPool", 7, kNewestOpset, maxPool, ".", "1 to 3 spatial dimensions"},
  };
  return rows;
}
