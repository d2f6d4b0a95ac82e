//===- Quantize.cpp - quantised tensors --------------------------------------------------------------===//
//
// A quantised value is an 8-bit integer q that means (q - zero point) * scale. Products of quantised values are
// computed exactly, in a floating-point type with enough digits, and rounded once.
//
// Exporters write quantised training ("fake quantisation") as a QuantizeLinear followed by its DequantizeLinear. The
// two stay in floating point here, without 8-bit integers between them. Their gradient is PyTorch's: that of the
// identity where the value is inside the range, and 0 where it was clamped.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/ConvPool.h"
#include "dialects/graph/GraphAttributes.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

/// A scale or zero point for x: a number, or one per index of dimension `axis`. Has x's rank.
static Val aligned(Node &n, const Val &v, const Val &x, int64_t axis, const std::string &what) {
  if (!v || !x)
    return {};
  Shape line(x.rank(), 1);
  if (v.size() != 1) {
    if (v.rank() != 1 || axis < 0 || axis >= x.rank() || v.shape[0] != x.shape[axis])
      return n.fail("the " + Twine(what) + " of shape " + shapeText(v.shape) +
                    " is neither one number nor one for each of dimension " + Twine(axis) + " of " +
                    shapeText(x.shape));
    line[axis] = v.shape[0];
  } else {
    line.clear();
  }
  return n.b.reshape(v, line, what);
}

static bool isByte(DType type) { return type == DType::I8 || type == DType::UI8; }

/// x / scale rounded, plus the zero point, clamped to the range of `type`. The result is still floating point.
static Val quantized(Node &n, const Val &x, const Val &scale, const Val &zero, DType type) {
  Val q = n.b.unary<graph::RoundOp>(n.b.div(x, scale, "scaled"), "rounded");
  if (q && q.value)
    q.value.getDefiningOp()->setAttr(graph::kStraightThroughAttr, mlir::UnitAttr::get(n.b.context()));
  if (zero && !(zero.known && zero.known->isSplat() && zero.known->floatAt(0) == 0))
    q = n.b.add(q, n.b.cast(zero, x.type, "zero_point_wide"), "shifted");
  bool isSigned = type == DType::I8;
  q = n.b.binary<graph::MaxOp>(q, n.b.scalarLike(x, isSigned ? -128 : 0), "low");
  return n.b.binary<graph::MinOp>(q, n.b.scalarLike(x, isSigned ? 127 : 255), "high");
}

/// (q - zero point) * scale, for a q in floating point.
static Val dequantized(Node &n, Val q, const Val &scale, const Val &zero) {
  if (q && zero && !(zero.known && zero.known->isSplat() && zero.known->floatAt(0) == 0))
    q = n.b.sub(q, n.b.cast(zero, q.type, "zero_point_wide"), "centered");
  return n.b.mul(q, scale);
}

static void quantizeLinear(Node &n) {
  Val x = n.in(0), scale = n.in(1), zero = n.opt(2);
  int64_t axis = n.attrInt("axis", 1), block = n.attrInt("block_size", 0);
  int64_t to = n.attrInt("output_dtype", 0), precision = n.attrInt("precision", 0);
  n.ignoreAttr("saturate"); // concerns 8-bit floating point only
  auto type = to != 0 ? compiler::dtypeOf(int32_t(to)) : std::optional<DType>(zero ? zero.type : DType::UI8);
  if (n.failed())
    return;
  if (!type || !isByte(*type) || (zero && zero.type != *type) || block != 0 || !isFloat(scale.type))
    return (void)n.fail("the result must be int8 or uint8, the scale floating point and block_size 0");
  if (axis < 0)
    axis += x.rank();
  if (precision != 0) {
    auto wide = compiler::dtypeOf(int32_t(precision));
    if (!wide || !isFloat(*wide))
      return (void)n.fail("precision must be a floating point type");
    scale = n.b.cast(scale, *wide, "scale_wide");
  }
  x = n.b.cast(x, scale.type, "wide");
  Val q = quantized(n, x, aligned(n, scale, x, axis, "scale"), zero ? aligned(n, zero, x, axis, "zero_point") : Val(),
                    *type);
  n.out(0, n.b.cast(q, *type));
}

/// If x is the result of a QuantizeLinear, its value before the cast to integers; else null.
static mlir::Value beforeCast(const Val &x) {
  auto cast = x.value ? x.value.getDefiningOp<graph::CastOp>() : graph::CastOp();
  auto high = cast ? cast.getX().getDefiningOp<graph::MinOp>() : graph::MinOp();
  auto low = high ? high.getA().getDefiningOp<graph::MaxOp>() : graph::MaxOp();
  mlir::Operation *rounded = low ? low.getA().getDefiningOp() : nullptr;
  if (auto shifted = llvm::dyn_cast_or_null<graph::AddOp>(rounded))
    rounded = shifted.getA().getDefiningOp();
  return rounded && rounded->hasAttr(graph::kStraightThroughAttr) ? cast.getX() : mlir::Value();
}

static void dequantizeLinear(Node &n) {
  Val x = n.in(0), scale = n.in(1), zero = n.opt(2);
  int64_t axis = n.attrInt("axis", 1), to = n.attrInt("output_dtype", 0);
  if (n.attrInt("block_size", 0) != 0)
    n.fail("block_size is not supported");
  if (n.failed())
    return;
  if ((!isByte(x.type) && x.type != DType::I32) || !isFloat(scale.type))
    return (void)n.fail("the input must be int8, uint8 or int32 and the scale floating point, not " +
                        dtypeName(x.type) + " and " + dtypeName(scale.type));
  if (axis < 0)
    axis += x.rank();
  if (to != 0) {
    auto type = compiler::dtypeOf(int32_t(to));
    if (!type || !isFloat(*type))
      return (void)n.fail("output_dtype must be a floating point type");
    scale = n.b.cast(scale, *type, "scale_cast");
  }
  mlir::Value before = beforeCast(x);
  Val q = n.b.cast(before ? n.b.wrap(before) : x, scale.type, "wide");
  n.out(0,
        dequantized(n, q, aligned(n, scale, x, axis, "scale"), zero ? aligned(n, zero, x, axis, "zero_point") : Val()));
}

/// The range of x and 0 in 255 parts.
static void dynamicQuantizeLinear(Node &n) {
  Val x = n.floatIn(0);
  if (n.failed())
    return;
  Shape all;
  for (int64_t d = 0; d < x.rank(); ++d)
    all.push_back(d);
  Val zero = n.b.scalarLike(x, 0);
  Val high = n.b.binary<graph::MaxOp>(n.b.reduce<graph::ReduceMaxOp>(x, all, false, "max"), zero, "range_high");
  Val low = n.b.binary<graph::MinOp>(n.b.reduce<graph::ReduceMinOp>(x, all, false, "min"), zero, "range_low");
  Val scale = n.b.scale(n.b.sub(high, low, "range"), 1.0 / 255, "scale");
  Val start = n.b.div(n.b.unary<graph::NegOp>(low, "range_start"), scale, "start");
  Val point =
      n.b.unary<graph::RoundOp>(n.b.binary<graph::MinOp>(start, n.b.scalarLike(x, 255), "start_cut"), "zero_point");
  n.out(0, n.b.cast(quantized(n, x, scale, point, DType::UI8), DType::UI8));
  n.out(1, scale);
  n.out(2, n.b.cast(point, DType::UI8, "zero_point_narrow"));
}

/// A quantised operand without its zero point, in a type that holds sums of `terms` products exactly.
static Val centered(Node &n, const Val &x, const Val &zero, int64_t axis, DType type, const std::string &what) {
  if (!x || n.failed())
    return {};
  if (!isByte(x.type) || (zero && zero.type != x.type))
    return n.fail("the " + Twine(what) + " is " + dtypeName(x.type) + "; it must be int8 or uint8 as its zero point");
  Val wide = n.b.cast(x, type, what + "_wide");
  if (!zero || (zero.known && zero.known->isSplat() && zero.known->intAt(0) == 0))
    return wide;
  Val point = aligned(n, zero, x, axis, what + "_zero_point");
  return n.b.sub(wide, n.b.cast(point, type, what + "_zero_point_wide"), what + "_centered");
}

/// The floating-point type in which sums of this many products of centred bytes are exact.
static DType exactFor(int64_t terms) { return terms <= (1 << 24) / (255 * 255) ? DType::F32 : DType::F64; }

/// The product of n's operands `a` and `b` (with zero points at the given inputs), and its number of terms.
static Val product(Node &n, int a, int zeroA, int b, int zeroB, bool isConv) {
  Val x = n.in(a), w = n.in(b);
  if (n.failed())
    return {};
  if (x.rank() < (isConv ? 3 : 1) || w.rank() < (isConv ? 3 : 1))
    return n.fail("the operands " + shapeText(x.shape) + " and " + shapeText(w.shape) + " have too few dimensions");
  int64_t terms = isConv ? w.size() / std::max<int64_t>(1, w.shape[0]) : x.shape.back();
  DType type = exactFor(terms);
  x = centered(n, x, n.opt(zeroA), isConv ? -1 : x.rank() - 2, type, "a");
  w = centered(n, w, n.opt(zeroB), isConv ? 0 : w.rank() - 1, type, "b");
  return isConv ? convolution(n, x, w, "product") : n.b.matmul(x, w, false, false, "product");
}

template <bool isConv> static void integerProduct(Node &n) {
  n.out(0, n.b.cast(product(n, 0, 2, 1, 3, isConv), DType::I32));
}

template <bool isConv> static void quantizedProduct(Node &n) {
  Val y = product(n, 0, 2, 3, 5, isConv), scaleA = n.in(1), scaleB = n.in(4), scaleY = n.in(6), zeroY = n.in(7);
  if (n.failed() || !y)
    return;
  if (!isByte(zeroY.type) || scaleA.size() != 1 || scaleY.size() != 1 || zeroY.size() != 1 || !isFloat(scaleA.type) ||
      scaleB.type != scaleA.type || scaleY.type != scaleA.type)
    return (void)n.fail("the scales must be floating point of one type, those of the first operand and the "
                        "result one number, and the result int8 or uint8");
  if (Val bias = isConv ? n.opt(8) : Val()) {
    if (bias.rank() != 1 || bias.shape[0] != y.shape[1] || bias.type != DType::I32)
      return (void)n.fail("the bias must be " + Twine(y.shape[1]) + " int32");
    y = n.b.add(y, aligned(n, n.b.cast(bias, y.type, "bias_wide"), y, 1, "bias"), "biased");
  }
  int64_t channel = isConv ? 1 : y.rank() - 1;
  Val factor = n.b.mul(aligned(n, n.b.cast(scaleA, y.type, "a_scale_wide"), y, channel, "a_scale"),
                       aligned(n, n.b.cast(scaleB, y.type, "b_scale_wide"), y, channel, "b_scale"), "factor");
  Val one = aligned(n, n.b.cast(scaleY, y.type, "y_scale_wide"), y, channel, "y_scale");
  Val q =
      quantized(n, n.b.mul(y, factor, "dequantized"), one, aligned(n, zeroY, y, channel, "y_zero_point"), zeroY.type);
  n.out(0, n.b.cast(q, zeroY.type));
}

llvm::ArrayRef<OpRow> tessera::compiler::quantizeOps() {
  static const llvm::StringLiteral bytes = "int8 and uint8";
  static const OpRow rows[] = {
      {"ConvInteger", 10, kNewestOpset, integerProduct<true>, ".kt", bytes},
      {"DequantizeLinear", 10, kNewestOpset, dequantizeLinear, ">tt", "int8, uint8 and int32; no block_size"},
      {"DynamicQuantizeLinear", 11, kNewestOpset, dynamicQuantizeLinear, ".", ""},
      {"MatMulInteger", 10, kNewestOpset, integerProduct<false>, ".kt", bytes},
      {"QLinearConv", 10, kNewestOpset, quantizedProduct<true>, ".ttkttttb", bytes},
      {"QLinearMatMul", 10, kNewestOpset, quantizedProduct<false>, ".ttktt", bytes},
      {"QuantizeLinear", 10, kNewestOpset, quantizeLinear, ">tt", "int8 and uint8; no block_size"},
  };
  return rows;
}
