//===- Functions.cpp - trigonometric and hyperbolic functions, bit shifts -------------------------===//
//
// Functions that are no operators of the graph dialect are built from exp, log, sin, cos, tanh and atan. The formulas
// avoid cancellation: sinh is tanh * cosh, not a difference of exponentials.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <numbers>

using namespace tessera;
using namespace tessera::compiler;

static Val square(Node &n, const Val &x) { return n.b.mul(x, x, "square"); }
static Val oneLike(Node &n, const Val &x) { return n.b.scalarLike(x, 1); }

static void tangent(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, n.b.div(n.b.unary<graph::SinOp>(x, "sin"), n.b.unary<graph::CosOp>(x, "cos")));
}

/// atan(x / sqrt(1 - x^2)), written so that its gradient at 0 is finite.
static Val arcsine(Node &n, const Val &x, llvm::StringRef last) {
  Val root = n.b.unary<graph::RsqrtOp>(n.b.sub(oneLike(n, x), square(n, x), "rest"), "rsqrt");
  return n.b.unary<graph::AtanOp>(n.b.mul(x, root, "ratio"), last);
}
static void asin(Node &n) { n.out(0, arcsine(n, n.floatIn(0), "")); }
static void acos(Node &n) {
  Val x = n.floatIn(0);
  Val half = n.b.scalarLike(x, std::numbers::pi / 2);
  n.out(0, n.b.sub(half, arcsine(n, x, "asin")));
}
static void atan(Node &n) { n.out(0, n.b.unary<graph::AtanOp>(n.floatIn(0))); }

/// (e^x + e^-x) / 2
static Val hyperbolicCosine(Node &n, const Val &x, llvm::StringRef last) {
  Val up = n.b.unary<graph::ExpOp>(x, "exp");
  Val down = n.b.unary<graph::ExpOp>(n.b.unary<graph::NegOp>(x, "neg"), "exp_neg");
  return n.b.scale(n.b.add(up, down, "sum"), 0.5, last);
}
static void cosh(Node &n) { n.out(0, hyperbolicCosine(n, n.floatIn(0), "")); }
static void sinh(Node &n) {
  Val x = n.floatIn(0);
  n.out(0, n.b.mul(n.b.unary<graph::TanhOp>(x, "tanh"), hyperbolicCosine(n, x, "cosh")));
}

/// log(|x| + sqrt(x^2 + 1)) with x's sign. Selects remove and restore the sign, so that the slope at 0 is 1.
static void asinh(Node &n) {
  Val x = n.floatIn(0);
  Val below = n.b.binary<graph::LtOp>(x, n.b.scalarLike(x, 0), "below");
  Val size = n.b.select(below, n.b.unary<graph::NegOp>(x, "minus"), x, "abs");
  Val root = n.b.unary<graph::SqrtOp>(n.b.add(square(n, x), oneLike(n, x), "plus_one"), "sqrt");
  Val log = n.b.unary<graph::LogOp>(n.b.add(size, root, "sum"), "log");
  n.out(0, n.b.select(below, n.b.unary<graph::NegOp>(log, "minus_log"), log));
}
/// log(x + sqrt(x^2 - 1))
static void acosh(Node &n) {
  Val x = n.floatIn(0);
  Val root = n.b.unary<graph::SqrtOp>(n.b.sub(square(n, x), oneLike(n, x), "minus_one"), "sqrt");
  n.out(0, n.b.unary<graph::LogOp>(n.b.add(x, root, "sum")));
}
/// log((1 + x) / (1 - x)) / 2
static void atanh(Node &n) {
  Val x = n.floatIn(0);
  Val ratio = n.b.div(n.b.add(oneLike(n, x), x, "one_plus"), n.b.sub(oneLike(n, x), x, "one_minus"), "ratio");
  n.out(0, n.b.scale(n.b.unary<graph::LogOp>(ratio, "log"), 0.5));
}

/// x - bias above lambd, x + bias below -lambd, 0 between.
static void shrink(Node &n) {
  Val x = n.in(0);
  double lambda = n.attrFloat("lambd", 0.5), bias = n.attrFloat("bias", 0);
  if (!x || x.type == DType::I1)
    return (void)n.fail("the input must be numbers");
  DType type = isFloat(x.type) ? x.type : DType::F64;
  Val v = n.b.cast(x, type, "wide");
  Val above = n.b.binary<graph::LtOp>(n.b.scalarLike(v, lambda), v, "above");
  Val below = n.b.binary<graph::LtOp>(v, n.b.scalarLike(v, -lambda), "below");
  Val low = n.b.select(below, n.b.add(v, n.b.scalarLike(v, bias), "plus_bias"), n.b.scalarLike(v, 0), "low");
  Val y = n.b.select(above, n.b.sub(v, n.b.scalarLike(v, bias), "minus_bias"), low, type == x.type ? "" : "shrunk");
  n.out(0, n.b.cast(y, x.type));
}

/// Multiplies or divides by a power of two. Of ONNX's unsigned types the graph dialect has only uint8.
static void bitShift(Node &n) {
  Val x = n.in(0), by = n.in(1);
  std::string direction = n.attrString("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return (void)n.fail("direction='" + direction + "' is unknown");
  if (!x || !by || x.type != DType::UI8 || by.type != x.type)
    return (void)n.fail("only uint8 is supported");
  Val two = n.b.scalar(DType::I64, 2);
  Val factor = n.b.binary<graph::PowOp>(two, n.b.cast(by, DType::I64, "by_wide"), "factor");
  Val wide = n.b.cast(x, DType::I64, "wide");
  Val y = direction == "LEFT" ? n.b.mul(wide, factor, "shifted") : n.b.div(wide, factor, "shifted");
  n.out(0, n.b.cast(y, x.type));
}

llvm::ArrayRef<OpRow> tessera::compiler::functionOps() {
  static const OpRow rows[] = {
      {"Acos", 7, kNewestOpset, acos, ".", ""},
      {"Acosh", 9, kNewestOpset, acosh, ".", ""},
      {"Asin", 7, kNewestOpset, asin, ".", ""},
      {"Asinh", 9, kNewestOpset, asinh, ".", ""},
      {"Atan", 7, kNewestOpset, atan, ".", ""},
      {"Atanh", 9, kNewestOpset, atanh, ".", ""},
      {"BitShift", 11, kNewestOpset, bitShift, "t", "uint8"},
      {"Cosh", 9, kNewestOpset, cosh, ".", ""},
      {"Shrink", 9, kNewestOpset, shrink, ".", ""},
      {"Sinh", 9, kNewestOpset, sinh, ".", ""},
      {"Tan", 7, kNewestOpset, tangent, ".", ""},
  };
  return rows;
}
