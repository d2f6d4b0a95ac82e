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

/// Minors of the first rows, one row more at a time: of row r and every r + 1 columns (the bits of `which`), the sum of
/// the row's elements times the minors without their columns, with alternating signs. No element is divided by, so no
/// order of rows depends on the numbers.
static void determinant(Node &n) {
  constexpr int64_t kMost = 6; // 2^6 minors
  Val x = n.floatIn(0);
  const int64_t rank = x.rank(), size = rank < 2 ? 0 : x.shape[rank - 1];
  if (size < 1 || size > kMost || x.shape[rank - 2] != size)
    return (void)n.fail("the determinant of " + shapeText(x.shape) +
                        " is not supported: matrices must be square, of 1 to " + llvm::Twine(kMost) + " rows");
  Shape result(x.shape.begin(), x.shape.end() - 2), strides(rank, 1);
  auto element = [&](int64_t row, int64_t column) {
    Shape starts(rank, 0), limits = x.shape;
    starts[rank - 2] = row;
    starts[rank - 1] = column;
    limits[rank - 2] = row + 1;
    limits[rank - 1] = column + 1;
    std::string at = std::to_string(row) + std::to_string(column);
    return n.b.reshape(n.b.slice(x, starts, limits, strides, "at" + at), result, "element" + at);
  };
  const unsigned all = (1u << size) - 1;
  std::vector<Val> minors(all + 1);
  for (unsigned which = 1; which <= all; ++which) {
    const int64_t row = llvm::popcount(which) - 1;
    std::string name = which == all ? "" : "minor" + std::to_string(which);
    Val sum;
    int64_t before = 0; // of the columns in `which`
    for (int64_t column = 0; column < size; ++column) {
      if (!(which >> column & 1))
        continue;
      Val factor = element(row, column);
      const Val &minor = minors[which & ~(1u << column)];
      Val term = minor ? n.b.mul(factor, minor, name) : factor;
      bool minus = (row + before++) % 2 != 0;
      sum = !sum    ? (minus ? n.b.unary<graph::NegOp>(term, "minus") : term)
            : minus ? n.b.sub(sum, term, name)
                    : n.b.add(sum, term, name);
    }
    minors[which] = sum;
  }
  n.out(0, minors[all]);
}

llvm::ArrayRef<OpRow> tessera::compiler::matmulOps() {
  static const OpRow rows[] = {
      {"Det", 11, kNewestOpset, determinant, ".", "floating point, up to 6 rows"},
      {"Gemm", 7, kNewestOpset, gemm, ".kb", "floating point"},
      {"MatMul", 7, kNewestOpset, matmul, ".k", "floating point"},
  };
  return rows;
}
