//===- MatMul.cpp - matrix products -----------------------------------------------------------===//

#include "compiler/import/Node.h"

using namespace tessera;
using namespace tessera::compiler;

static bool checkTypes(Node &n, const Val &a, const Val &b) {
  if (a && b && a.type == b.type && isFloat(a.type))
    return true;
  if (a && b)
    n.fail("operands of types " + dtypeName(a.type) + " and " + dtypeName(b.type) +
           " are not supported: both must have one floating point type");
  return false;
}

/// Replaces x by the operand of its transpose, if that exchanges the last two dimensions, and returns true. The product
/// then sets a flag instead. Exporters write x W' like this.
static bool takeTranspose(Node &n, Val &x) {
  auto op = x.value ? x.value.getDefiningOp<graph::TransposeOp>() : graph::TransposeOp();
  if (!op || x.rank() < 2)
    return false;
  auto last = size_t(x.rank()) - 1;
  for (auto [i, p] : llvm::enumerate(op.getPerm()))
    if (p != int64_t(i < last - 1 ? i : i == last ? last - 1 : last))
      return false;
  x = n.b.wrap(op.getX());
  return true;
}

static void matmul(Node &n) {
  Val a = n.in(0), b = n.in(1);
  if (!checkTypes(n, a, b))
    return;
  if (a.rank() == 0 || b.rank() == 0)
    return (void)n.fail("an operand is a scalar");
  // A vector is a row on the left, a column on the right; its dimension vanishes from the result.
  bool row = a.rank() == 1, column = b.rank() == 1;
  if (row)
    a = n.b.reshape(a, {1, a.shape[0]}, "row");
  if (column)
    b = n.b.reshape(b, {b.shape[0], 1}, "column");
  bool transposeA = takeTranspose(n, a), transposeB = takeTranspose(n, b);
  Val y = n.b.matmul(a, b, transposeA, transposeB);
  if (y && (row || column)) {
    Shape shape = y.shape;
    if (column)
      shape.pop_back();
    if (row)
      shape.erase(shape.end() - (column ? 1 : 2));
    y = n.b.reshape(y, shape, "vector");
  }
  n.out(0, y);
}

/// alpha * A' B' + beta * C
static void gemm(Node &n) {
  Val a = n.in(0), b = n.in(1), c = n.opt(2);
  if (!checkTypes(n, a, b))
    return;
  if (a.rank() != 2 || b.rank() != 2)
    return (void)n.fail("the operands " + shapeText(a.shape) + " and " + shapeText(b.shape) + " must be matrices");
  Val y = n.b.matmul(a, b, n.attrInt("transA", 0) != 0, n.attrInt("transB", 0) != 0);
  y = n.b.scale(y, n.attrFloat("alpha", 1), "alpha");
  double beta = n.attrFloat("beta", 1);
  if (y && c && beta != 0) {
    Shape shape = y.shape;
    y = n.b.add(y, n.b.scale(c, beta, "beta"), "bias");
    if (y && y.shape != shape)
      return (void)n.fail("C of shape " + shapeText(c.shape) + " does not broadcast to " + shapeText(shape));
  }
  n.out(0, y);
}

llvm::ArrayRef<OpRow> tessera::compiler::matmulOps() {
  static const OpRow rows[] = {
      {"Gemm", 7, kNewestOpset, gemm, ".kb", "floating point"},
      {"MatMul", 7, kNewestOpset, matmul, ".k", "floating point"},
  };
  return rows;
}
