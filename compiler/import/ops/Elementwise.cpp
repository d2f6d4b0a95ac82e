//===- Elementwise.cpp - ONNX operators that work point by point ------------------------------===//

#include "compiler/import/Exporter.h"
#include "compiler/import/ops/Reduce.h"

#include <cmath>
#include <limits>
#include <numbers>

using namespace tessera;
using namespace tessera::compiler;

template <typename OpTy> static void unaryFloat(Node &n) { n.out(0, n.b.unary<OpTy>(n.floatIn(0))); }

template <typename OpTy> static void unaryAny(Node &n) {
  Val x = n.in(0);
  if (x && x.type == DType::I1)
    x = n.fail("booleans are not supported");
  n.out(0, n.b.unary<OpTy>(x));
}

static void logicalNot(Node &n) {
  Val x = n.in(0);
  if (x && x.type != DType::I1)
    x = n.fail("the operand must be boolean");
  n.out(0, n.b.unary<graph::NotOp>(x));
}

template <typename OpTy> static void binary(Node &n) {
  Val x = n.in(0);
  if (x && x.type == DType::I1)
    x = n.fail("booleans are not supported");
  n.out(0, n.b.binary<OpTy>(x, n.in(1)));
}

template <typename OpTy> static void logical(Node &n) {
  Val x = n.in(0);
  if (x && x.type != DType::I1)
    x = n.fail("the operands must be boolean");
  n.out(0, n.b.binary<OpTy>(x, n.in(1)));
}

template <typename OpTy> static void bitwise(Node &n) {
  Val x = n.in(0);
  if (x && (isFloat(x.type) || x.type == DType::I1))
    x = n.fail("the operands must be integers");
  n.out(0, n.b.binary<OpTy>(x, n.in(1)));
}

/// Every bit flipped: combined with ones.
static void bitwiseNot(Node &n) {
  Val x = n.in(0);
  if (x && (isFloat(x.type) || x.type == DType::I1))
    x = n.fail("the operand must be integers");
  n.out(0, n.b.binary<graph::BitXorOp>(x, n.b.scalarLike(x, x.type == DType::UI8 ? 255 : -1)));
}

template <typename OpTy> static void compare(Node &n) { n.out(0, n.b.binary<OpTy>(n.in(0), n.in(1))); }
template <typename OpTy> static void compareSwapped(Node &n) { n.out(0, n.b.binary<OpTy>(n.in(1), n.in(0))); }

/// graph.mod has the divisor's sign, fmod=1 the dividend's. So fmod=1 is computed on magnitudes, and then gets the
/// sign.
static void mod(Node &n) {
  Val x = n.in(0), y = n.in(1);
  bool fmod = n.attrInt("fmod", 0) != 0;
  if (!fmod && x && isFloat(x.type) && n.opset < 28)
    x = n.fail("floating point needs fmod=1");
  if (!fmod)
    return n.out(0, n.b.binary<graph::ModOp>(x, y));
  Val size = n.b.binary<graph::ModOp>(n.b.unary<graph::AbsOp>(x, "abs"), n.b.unary<graph::AbsOp>(y, "divisor_abs"),
                                      "magnitude");
  n.out(0, n.b.mul(size, n.b.unary<graph::SignOp>(x, "sign")));
}

/// Min, Max, Sum: a chain; the last operator is the primary one.
template <typename OpTy> static Val chain(Node &n, llvm::StringRef last = "") {
  Val y = n.in(0);
  if (y && y.type == DType::I1)
    return n.fail("booleans are not supported");
  for (int i = 1; i < n.numInputs(); ++i)
    y = n.b.binary<OpTy>(y, n.in(i), i + 1 == n.numInputs() ? last.str() : "part" + std::to_string(i));
  return y;
}
template <typename OpTy> static void variadic(Node &n) { n.out(0, chain<OpTy>(n)); }
static void mean(Node &n) { n.out(0, n.b.scale(chain<graph::AddOp>(n, "sum"), 1.0 / n.numInputs())); }

/// Powers with a known exponent become products and roots, which are cheaper. PyTorch does the same.
static void pow(Node &n) {
  Val x = n.in(0), e = n.in(1);
  if (!x || !e)
    return;
  // The result has the base's type; integers to fractional powers are computed in double.
  if (!isFloat(x.type) && isFloat(e.type)) {
    Val wide = n.b.cast(x, DType::F64, "base_wide"), power = n.b.cast(e, DType::F64, "exponent");
    return n.out(0, n.b.cast(n.b.binary<graph::PowOp>(wide, power, "power"), x.type));
  }
  if (e.type != x.type)
    e = n.b.cast(e, x.type, "exponent");
  if (!e)
    return;
  if (e.known && e.known->isSplat() && !x.known && graph::broadcastShapes(x.shape, e.shape) == x.shape) {
    double p = e.known->floatAt(0);
    if (p == 1)
      return n.out(0, x);
    if (p == 2)
      return n.out(0, n.b.mul(x, x));
    if (p == 3)
      return n.out(0, n.b.mul(n.b.mul(x, x, "square"), x));
    if (isFloat(x.type) && p == 0.5)
      return n.out(0, n.b.unary<graph::SqrtOp>(x));
    if (isFloat(x.type) && p == -0.5)
      return n.out(0, n.b.unary<graph::RsqrtOp>(x));
    if (isFloat(x.type) && p == -1)
      return n.out(0, n.b.unary<graph::ReciprocalOp>(x));
  }
  n.out(0, n.b.binary<graph::PowOp>(x, e));
}

static void sqrt(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, isSumOfSquares(x) ? rootOfSquares(n, x, "") : n.b.unary<graph::SqrtOp>(x));
}

//===----------------------------------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------------------------------===//

static Val below0(Node &n, const Val &x) { // min(x, 0)
  return n.b.binary<graph::MinOp>(x, n.b.scalarLike(x, 0), "negative");
}

/// x above 0, else `scaled`: at 0 the slope is that of `scaled`, as PyTorch has it.
static Val above0(Node &n, const Val &x, const Val &scaled) {
  return n.b.select(n.b.binary<graph::LtOp>(n.b.scalarLike(x, 0), x, "above"), x, scaled);
}

static void leakyRelu(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, above0(n, x, n.b.scale(x, n.attrFloat("alpha", 0.01), "scaled")));
}

static void prelu(Node &n) {
  Val x = n.floatIn(0), slope = n.in(1);
  Val scaled = n.b.mul(x, slope, "scaled");
  if (scaled && scaled.shape != x.shape)
    return (void)n.fail("the slope's shape " + shapeText(slope.shape) + " does not broadcast to " + shapeText(x.shape));
  n.out(0, above0(n, x, scaled));
}

static void thresholdedRelu(Node &n) {
  Val x = n.floatIn(0);
  Val limit = n.b.scalarLike(x, n.attrFloat("alpha", 1));
  n.out(0, n.b.select(n.b.binary<graph::LtOp>(limit, x, "above"), x, n.b.scalarLike(x, 0)));
}

/// relu(x) + alpha * (exp(min(x, 0) / beta) - 1). The argument of the exponential is never positive, so that it cannot
/// overflow and no gradient is infinity times zero.
static Val eluOf(Node &n, const Val &x, double alpha, double beta, llvm::StringRef last = "") {
  Val e = n.b.unary<graph::Expm1Op>(n.b.scale(below0(n, x), 1 / beta, "scaled"), "expm1");
  Val tail = n.b.scale(e, alpha, "tail");
  return n.b.add(n.b.unary<graph::ReluOp>(x, "positive"), tail, last);
}
static void elu(Node &n) { n.out(0, eluOf(n, n.floatIn(0), n.attrFloat("alpha", 1), 1)); }
static void celu(Node &n) {
  double alpha = n.attrFloat("alpha", 1);
  n.out(0, eluOf(n, n.floatIn(0), alpha, alpha));
}
static void selu(Node &n) {
  double alpha = n.attrFloat("alpha", 1.67326319217681884765625);
  double gamma = n.attrFloat("gamma", 1.05070102214813232421875);
  n.out(0, n.b.scale(eluOf(n, n.floatIn(0), alpha, 1, "elu"), gamma));
}

/// relu(x) + log(1 + exp(-|x|)), which does not overflow. -|x| is written as min(x, 0) - relu(x), whose slope at 0 is
/// 1. So the slope of the whole at 0 is 1/2. With |x| it would be 0.
static Val softplusOf(Node &n, const Val &x, llvm::StringRef last = "") {
  Val positive = n.b.unary<graph::ReluOp>(x, "positive");
  Val e = n.b.unary<graph::ExpOp>(n.b.sub(below0(n, x), positive, "minus_abs"), "exp");
  return n.b.add(positive, n.b.unary<graph::Log1pOp>(e, "log1p"), last);
}
static void softplus(Node &n) { n.out(0, softplusOf(n, n.floatIn(0))); }

/// The logarithm of a sigmoid is computed as -softplus(-x), because the sigmoid rounds to 1 or 0 where its logarithm
/// can still be represented.
static void log(Node &n) {
  Val x = n.floatIn(0);
  if (auto sigmoid = x.value ? x.value.getDefiningOp<graph::SigmoidOp>() : graph::SigmoidOp()) {
    Val minus = n.b.unary<graph::NegOp>(n.b.wrap(sigmoid.getX()), "minus");
    return n.out(0, n.b.unary<graph::NegOp>(softplusOf(n, minus, "softplus")));
  }
  n.out(0, n.b.unary<graph::LogOp>(x));
}

static void mish(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, n.b.mul(x, n.b.unary<graph::TanhOp>(softplusOf(n, x, "softplus"), "tanh")));
}
static void softsign(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, n.b.div(x, n.b.add(n.b.unary<graph::AbsOp>(x, "abs"), n.b.scalarLike(x, 1), "plus_one")));
}

static Val clamp01(Node &n, const Val &x, llvm::StringRef last = "") {
  return n.b.binary<graph::MinOp>(n.b.unary<graph::ReluOp>(x, "positive"), n.b.scalarLike(x, 1), last);
}
static void hardSigmoid(Node &n) {
  Val x = n.floatIn(0);
  Val line = n.b.scale(x, n.attrFloat("alpha", 0.2), "scaled");
  n.out(0, clamp01(n, n.b.add(line, n.b.scalarLike(x, n.attrFloat("beta", 0.5)), "shifted")));
}
static void hardSwish(Node &n) {
  Val x = n.floatIn(0);
  Val line = n.b.add(n.b.scale(x, 1.0 / 6, "scaled"), n.b.scalarLike(x, 0.5), "shifted");
  n.out(0, n.b.mul(x, clamp01(n, line, "gate")));
}

/// x * sigmoid(alpha x)
static Val swishOf(Node &n, const Val &x, llvm::StringRef last = "") {
  return n.b.mul(x, n.b.unary<graph::SigmoidOp>(n.b.scale(x, n.attrFloat("alpha", 1), "scaled"), "sigmoid"), last);
}
static void swish(Node &n) { n.out(0, swishOf(n, n.floatIn(0))); }
static void swiGlu(Node &n) {
  Val gate = n.floatIn(0), x = n.floatIn(1);
  if (gate && x && gate.shape != x.shape)
    return (void)n.fail("the gate " + shapeText(gate.shape) + " and the value " + shapeText(x.shape) +
                        " differ in shape");
  n.out(0, n.b.mul(swishOf(n, gate, "gate"), x));
}

static void gelu(Node &n) {
  Val x = n.floatIn(0);
  std::string kind = n.attrString("approximate", "none");
  Val inner;
  if (kind == "tanh") {
    Val cube = n.b.mul(n.b.mul(x, x, "square"), x, "cube");
    Val sum = n.b.add(x, n.b.scale(cube, 0.044715, "scaled_cube"), "sum");
    inner = n.b.unary<graph::TanhOp>(n.b.scale(sum, std::sqrt(2 / std::numbers::pi), "argument"), "tanh");
  } else if (kind == "none") {
    inner = n.b.unary<graph::ErfOp>(n.b.scale(x, std::sqrt(0.5), "argument"), "erf");
  } else {
    return (void)n.fail("approximate='" + kind + "' is unknown");
  }
  Val gate = n.b.scale(n.b.add(inner, n.b.scalarLike(x, 1), "plus_one"), 0.5, "gate");
  n.out(0, n.b.mul(x, gate));
}

static void clip(Node &n) {
  Val x = n.in(0), y = x;
  Val lo, hi;
  if (n.opset < 11) {
    double min = n.attrFloat("min", -std::numeric_limits<double>::infinity());
    double max = n.attrFloat("max", std::numeric_limits<double>::infinity());
    // The defaults are the ends of float32.
    if (min > std::numeric_limits<float>::lowest())
      lo = n.b.scalarLike(x, min);
    if (max < std::numeric_limits<float>::max())
      hi = n.b.scalarLike(x, max);
  } else {
    lo = n.opt(1);
    hi = n.opt(2);
  }
  for (const Val &limit : {lo, hi})
    if (limit && limit.rank() != 0 && limit.size() != 1)
      return (void)n.fail("min and max must be scalars");
  auto scalar = [&](const Val &v) { return n.b.reshape(v, {}, "limit"); };
  if (lo)
    y = n.b.binary<graph::MaxOp>(y, scalar(lo), hi ? "low" : "");
  if (hi)
    y = n.b.binary<graph::MinOp>(y, scalar(hi));
  n.out(0, y);
}

//===----------------------------------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------------------------------===//

static void isNaN(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, n.b.unary<graph::NotOp>(n.b.binary<graph::EqOp>(x, x, "equal")));
}

static void isInf(Node &n) {
  Val x = n.floatIn(0), y;
  double inf = std::numeric_limits<double>::infinity();
  bool positive = n.attrInt("detect_positive", 1), negative = n.attrInt("detect_negative", 1);
  if (!positive && !negative)
    return (void)n.fail("detects neither positive nor negative infinity");
  if (positive && negative)
    x = n.b.unary<graph::AbsOp>(x, "abs");
  n.out(0, n.b.binary<graph::EqOp>(x, n.b.scalarLike(x, positive ? inf : -inf)));
}

static void where(Node &n) { n.out(0, n.b.select(n.in(0), n.in(1), n.in(2))); }

static void castTo(Node &n) {
  Val x = n.in(0);
  int64_t to = n.attrInt("to", 0);
  for (const char *name : {"saturate", "round_mode"}) // concern 8-bit floating point only
    n.ignoreAttr(name);
  auto type = compiler::dtypeOf(int32_t(to));
  if (!type)
    return (void)n.fail("a cast to " + onnxTypeName(int32_t(to)) + " is not supported");
  n.out(0, n.b.cast(x, *type));
}

static void castLike(Node &n) {
  Val x = n.in(0), like = n.in(1);
  for (const char *name : {"saturate", "round_mode"})
    n.ignoreAttr(name);
  n.out(0, n.b.cast(x, like.type));
}

static void identity(Node &n) {
  Val x = n.has(0) ? n.inputs()[0] : n.in(0); // a sequence, too
  n.out(0, isDetach(n.proto) ? n.b.stopGradient(x) : x);
}

llvm::ArrayRef<OpRow> tessera::compiler::elementwiseOps() {
  static const OpRow rows[] = {
      {"Abs", 6, kNewestOpset, unaryAny<graph::AbsOp>, ".", ""},
      {"Add", 7, kNewestOpset, binary<graph::AddOp>, ".", ""},
      {"And", 7, kNewestOpset, logical<graph::AndOp>, ".", ""},
      {"BitwiseAnd", 18, kNewestOpset, bitwise<graph::BitAndOp>, ".", ""},
      {"BitwiseNot", 18, kNewestOpset, bitwiseNot, ".", ""},
      {"BitwiseOr", 18, kNewestOpset, bitwise<graph::BitOrOp>, ".", ""},
      {"BitwiseXor", 18, kNewestOpset, bitwise<graph::BitXorOp>, ".", ""},
      {"Cast", 7, kNewestOpset, castTo, ">", "float, double, float16, bfloat16, int64, int32, int8, uint8, bool"},
      {"CastLike", 15, kNewestOpset, castLike, ">t", "as Cast"},
      {"Ceil", 6, kNewestOpset, unaryFloat<graph::CeilOp>, ".", ""},
      {"Celu", 12, kNewestOpset, celu, ".", ""},
      {"Clip", 7, kNewestOpset, clip, ".", ""},
      {"Cos", 7, kNewestOpset, unaryFloat<graph::CosOp>, ".", ""},
      {"Div", 7, kNewestOpset, binary<graph::DivOp>, ".", ""},
      {"Elu", 6, kNewestOpset, elu, ".", ""},
      {"Equal", 7, kNewestOpset, compare<graph::EqOp>, "t", ""},
      {"Erf", 9, kNewestOpset, unaryFloat<graph::ErfOp>, ".", ""},
      {"Exp", 6, kNewestOpset, unaryFloat<graph::ExpOp>, ".", ""},
      {"Floor", 6, kNewestOpset, unaryFloat<graph::FloorOp>, ".", ""},
      {"Gelu", 20, kNewestOpset, gelu, ".", ""},
      {"Greater", 7, kNewestOpset, compareSwapped<graph::LtOp>, "t", ""},
      {"GreaterOrEqual", 12, kNewestOpset, compareSwapped<graph::LeOp>, "t", ""},
      {"HardSigmoid", 6, kNewestOpset, hardSigmoid, ".", ""},
      {"HardSwish", 14, kNewestOpset, hardSwish, ".", ""},
      {"Identity", 1, kNewestOpset, identity, ">", ""},
      {"IsInf", 10, kNewestOpset, isInf, "t", ""},
      {"IsNaN", 9, kNewestOpset, isNaN, "t", ""},
      {"LeakyRelu", 6, kNewestOpset, leakyRelu, ".", ""},
      {"Less", 7, kNewestOpset, compare<graph::LtOp>, "t", ""},
      {"LessOrEqual", 12, kNewestOpset, compare<graph::LeOp>, "t", ""},
      {"Log", 6, kNewestOpset, log, ".", ""},
      {"Max", 7, kNewestOpset, variadic<graph::MaxOp>, ".", ""},
      {"Mean", 7, kNewestOpset, mean, ".", ""},
      {"Min", 7, kNewestOpset, variadic<graph::MinOp>, ".", ""},
      {"Mish", 18, kNewestOpset, mish, ".", ""},
      {"Mod", 10, kNewestOpset, mod, ".", ""},
      {"Mul", 7, kNewestOpset, binary<graph::MulOp>, "*", ""},
      {"Neg", 6, kNewestOpset, unaryAny<graph::NegOp>, ".", ""},
      {"Not", 1, kNewestOpset, logicalNot, "t", ""},
      {"Or", 7, kNewestOpset, logical<graph::OrOp>, ".", ""},
      {"PRelu", 7, kNewestOpset, prelu, ".p", ""},
      {"Pow", 7, kNewestOpset, pow, ".", ""},
      {"Reciprocal", 6, kNewestOpset, unaryFloat<graph::ReciprocalOp>, ".", ""},
      {"Relu", 6, kNewestOpset, unaryAny<graph::ReluOp>, ".", ""},
      {"Round", 11, kNewestOpset, unaryFloat<graph::RoundOp>, ".", ""},
      {"Selu", 6, kNewestOpset, selu, ".", ""},
      {"Sigmoid", 6, kNewestOpset, unaryFloat<graph::SigmoidOp>, ".", ""},
      {"Sign", 9, kNewestOpset, unaryAny<graph::SignOp>, ".", ""},
      {"Sin", 7, kNewestOpset, unaryFloat<graph::SinOp>, ".", ""},
      {"Softplus", 1, kNewestOpset, softplus, ".", ""},
      {"Softsign", 1, kNewestOpset, softsign, ".", ""},
      {"Sqrt", 6, kNewestOpset, sqrt, ".", ""},
      {"Sub", 7, kNewestOpset, binary<graph::SubOp>, ".", ""},
      {"Sum", 8, kNewestOpset, variadic<graph::AddOp>, ".", ""},
      {"SwiGLU", 28, kNewestOpset, swiGlu, ".", ""},
      {"Swish", 24, kNewestOpset, swish, ".", ""},
      {"Tanh", 6, kNewestOpset, unaryFloat<graph::TanhOp>, ".", ""},
      {"ThresholdedRelu", 10, kNewestOpset, thresholdedRelu, ".", ""},
      {"Where", 9, kNewestOpset, where, "t..", ""},
      {"Xor", 7, kNewestOpset, logical<graph::XorOp>, ".", ""},
  };
  return rows;
}
