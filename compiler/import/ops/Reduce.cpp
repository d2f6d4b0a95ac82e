//===- Reduce.cpp - reductions, arg max, cumulative sums
//------------------------------------------===//

#include "compiler/import/Node.h"

#include <limits>

using namespace tessera;
using namespace tessera::compiler;

/// The dimensions that a reduction runs over; the input's, if nothing is to be done.
static std::optional<Shape> reducedDims(Node &n, const Val &x, int64_t lastAttr) {
  auto given = n.axesAttrOrInput("axes", lastAttr, 1);
  bool noop = n.attrInt("noop_with_empty_axes", 0) != 0;
  if (n.failed())
    return std::nullopt;
  Shape dims;
  if (given && !given->empty()) {
    dims = n.axes(*given, x.rank());
  } else if (!noop) {
    for (int64_t d = 0; d < x.rank(); ++d)
      dims.push_back(d);
  }
  if (n.failed())
    return std::nullopt;
  return dims;
}

enum class Kind { Sum, Mean, Max, Min, L1, L2, SumSquare, LogSum, LogSumExp };

template <Kind kind> static void reduce(Node &n) {
  Val x = n.in(0);
  // axes became an input in opset 13 for ReduceSum and in 18 for the others.
  auto dims = reducedDims(n, x, kind == Kind::Sum ? 12 : 17);
  bool keep = n.attrInt("keepdims", 1) != 0;
  if (n.failed() || !dims)
    return;
  if (x.type == DType::I1)
    return (void)n.fail("booleans are not supported");
  auto sum = [&](const Val &v, llvm::StringRef suffix = "") {
    return n.b.reduce<graph::ReduceSumOp>(v, *dims, keep, suffix);
  };
  bool floating = isFloat(x.type);
  switch (kind) {
  case Kind::Sum:
    return n.out(0, sum(x));
  case Kind::Mean:
    return n.out(0, n.b.mean(x, *dims, keep));
  case Kind::Max:
    return n.out(0, n.b.reduce<graph::ReduceMaxOp>(x, *dims, keep));
  case Kind::Min:
    return n.out(0, n.b.reduce<graph::ReduceMinOp>(x, *dims, keep));
  case Kind::L1:
    return n.out(0, sum(n.b.unary<graph::AbsOp>(x, "abs")));
  case Kind::SumSquare:
    return n.out(0, sum(n.b.mul(x, x, "square")));
  default:
    break;
  }
  if (!floating)
    return (void)n.fail("an input of type " + dtypeName(x.type) +
                        " is not supported: it must be floating point");
  if (kind == Kind::L2)
    return n.out(0, n.b.unary<graph::SqrtOp>(sum(n.b.mul(x, x, "square")), "sqrt"));
  if (kind == Kind::LogSum)
    return n.out(0, n.b.unary<graph::LogOp>(sum(x), "log"));
  // log sum exp: the maximum is taken out, so that nothing overflows.
  Val max = n.b.reduce<graph::ReduceMaxOp>(x, *dims, true, "max");
  Val y = sum(n.b.unary<graph::ExpOp>(n.b.sub(x, max, "shifted"), "exp"));
  y = n.b.unary<graph::LogOp>(y, "log");
  if (!y)
    return;
  n.out(0, n.b.add(y, n.b.reshape(max, y.shape, "max_reshape"), "unshifted"));
}

/// Products occur in shape arithmetic (numbers of elements); only known values are multiplied.
static void reduceProd(Node &n) {
  Val x = n.in(0);
  auto dims = reducedDims(n, x, 17);
  bool keep = n.attrInt("keepdims", 1) != 0;
  if (n.failed() || !dims)
    return;
  if (!x.known || static_cast<int64_t>(dims->size()) != x.rank() || x.size() > kMaxRank)
    return (void)n.fail("only the product of all elements of a shape known at import is supported");
  Shape shape(keep ? x.rank() : 0, 1);
  Val one = n.b.reshape(n.b.scalarLike(x, 1), shape), product = one;
  Val flat = n.b.reshape(x, {x.size()});
  for (int64_t i = 0; i < x.size() && !n.failed(); ++i)
    product = n.b.mul(product, n.b.slice(flat, {i}, {i + 1}, {1}));
  n.out(0, n.b.reshape(product, shape));
}

template <bool minimum> static void argMax(Node &n) {
  Val x = n.in(0);
  int64_t axis = n.axis(n.attrInt("axis", 0), x.rank());
  bool keep = n.attrInt("keepdims", 1) != 0;
  if (n.attrInt("select_last_index", 0) != 0)
    n.fail("select_last_index=1 is not supported");
  if (x && x.type == DType::I1)
    n.fail("booleans are not supported");
  if (n.failed())
    return;
  if (minimum)
    x = n.b.unary<graph::NegOp>(x, "neg");
  n.out(0,
        n.b.create<graph::ArgMaxOp>(x, {n.b.attr("dim", axis), n.b.attrBool("keepdims", keep)})[0]);
}

/// The largest element alone: a maximum and its index.
static void topK(Node &n) {
  Val x = n.in(0);
  Shape k;
  if (n.opset < 10)
    k = {n.attrInt("k", 0)};
  else if (auto given = n.knownInts(1, "k"))
    k = *given;
  int64_t axis = n.axis(n.attrInt("axis", -1), x.rank());
  bool largest = n.attrInt("largest", 1) != 0;
  n.ignoreAttr("sorted");
  if (n.failed())
    return;
  if (k.size() != 1 || k[0] != 1)
    return (void)n.fail("only k = 1 is supported");
  if (n.wanted(0))
    n.out(0, largest ? n.b.reduce<graph::ReduceMaxOp>(x, {axis}, true)
                     : n.b.reduce<graph::ReduceMinOp>(x, {axis}, true));
  if (!n.wanted(1))
    return;
  if (!largest)
    x = n.b.unary<graph::NegOp>(x, "neg");
  n.out(1, n.b.create<graph::ArgMaxOp>(x, {n.b.attr("dim", axis), n.b.attrBool("keepdims", true)},
                                       "index")[0]);
}

/// A known value: added up directly.
static Val knownCumSum(Node &n, const Val &x, int64_t axis, bool exclusive, bool reverse) {
  int64_t extent = x.shape[axis], inner = 1, size = x.size();
  for (int64_t d = axis + 1; d < x.rank(); ++d)
    inner *= x.shape[d];
  std::vector<int64_t> ints(size);
  std::vector<double> floats(size);
  for (int64_t i = 0; i < size; ++i) {
    if ((i / inner) % extent != 0)
      continue; // the first of each line
    int64_t total = 0;
    double sum = 0;
    for (int64_t j = 0; j < extent; ++j) {
      int64_t at = i + (reverse ? extent - 1 - j : j) * inner;
      if (exclusive) {
        ints[at] = total;
        floats[at] = sum;
      }
      total = static_cast<int64_t>(static_cast<uint64_t>(total) +
                                   static_cast<uint64_t>(x.known->intAt(at)));
      sum = roundTo(isFloat(x.type) ? x.type : DType::F64, sum + x.known->floatAt(at));
      if (!exclusive) {
        ints[at] = total;
        floats[at] = sum;
      }
    }
  }
  return n.b.known(isFloat(x.type) ? Constant::floats(x.type, x.shape, std::move(floats))
                                   : Constant::ints(x.type, x.shape, std::move(ints)));
}

/// A product with a triangle of ones: exact for 32-bit integers (in f64), and up to the order of
/// the additions for floating point.
static void cumSum(Node &n) {
  Val x = n.in(0);
  n.in(1);
  auto given = n.knownInts(1, "axis");
  bool exclusive = n.attrInt("exclusive", 0) != 0, reverse = n.attrInt("reverse", 0) != 0;
  if (n.failed() || given->size() != 1)
    return (void)n.fail("axis must be one number");
  int64_t axis = n.axis((*given)[0], x.rank());
  if (n.failed())
    return;
  if (x.known && n.b.mayFold(x.size()))
    return n.out(0, knownCumSum(n, x, axis, exclusive, reverse));
  int64_t extent = x.shape[axis];
  if (x.type == DType::I64 || x.type == DType::I1 || extent > (1 << 20))
    return (void)n.fail(
        "an input of type " + dtypeName(x.type) +
        " that is not known at import is not supported: cast it to float or int32 before");
  DType type = isFloat(x.type) ? x.type : DType::F64;
  // y[i] = sum over j of triangle[i, j] x[j], with triangle[i, j] = j <= i (or <, or the other way
  // round).
  Val i = n.b.iota(DType::I64, {extent, extent}, 0, "rows"),
      j = n.b.iota(DType::I64, {extent, extent}, 1, "columns");
  Val low = reverse ? i : j, high = reverse ? j : i;
  Val keep = exclusive ? n.b.binary<graph::LtOp>(low, high, "keep")
                       : n.b.binary<graph::LeOp>(low, high, "keep");
  Val triangle = n.b.cast(keep, type, "triangle");
  Val y = n.b.cast(x, type, "wide");
  if (!y)
    return;
  // The summed dimension goes last but one, or last where there is only one.
  Shape perm;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != axis)
      perm.push_back(d);
  bool last = axis == x.rank() - 1;
  perm.insert(last ? perm.end() : perm.end() - 1, axis);
  Shape inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d)
    inverse[perm[d]] = static_cast<int64_t>(d);
  y = n.b.transpose(y, perm, "to_back");
  if (last) {
    Shape shape = x.shape;
    if (x.rank() == 1)
      y = n.b.reshape(y, {1, extent}, "row");
    y = n.b.reshape(n.b.matmul(y, triangle, false, true), shape, "vector");
  } else {
    y = n.b.matmul(triangle, y);
  }
  y = n.b.transpose(y, inverse, "from_back");
  n.out(0, n.b.cast(y, x.type, "narrow"));
}

llvm::ArrayRef<OpRow> tessera::compiler::reduceOps() {
  static const OpRow rows[] = {
      {"ArgMax", 7, 21, argMax<false>, ".", "select_last_index=0"},
      {"ArgMin", 7, 21, argMax<true>, ".", "select_last_index=0"},
      {"CumSum", 11, 21, cumSum, ".t", "floating point or int32, unless known at import"},
      {"ReduceL1", 7, 21, reduce<Kind::L1>, ".t", ""},
      {"ReduceL2", 7, 21, reduce<Kind::L2>, ".t", "floating point"},
      {"ReduceLogSum", 7, 21, reduce<Kind::LogSum>, ".t", "floating point"},
      {"ReduceLogSumExp", 7, 21, reduce<Kind::LogSumExp>, ".t", "floating point"},
      {"ReduceMax", 7, 21, reduce<Kind::Max>, ".t", ""},
      {"ReduceMean", 7, 21, reduce<Kind::Mean>, ".t", "floating point"},
      {"ReduceMin", 7, 21, reduce<Kind::Min>, ".t", ""},
      {"ReduceProd", 7, 21, reduceProd, ".t", "all elements of a value known at import"},
      {"ReduceSum", 7, 21, reduce<Kind::Sum>, ".t", ""},
      {"ReduceSumSquare", 7, 21, reduce<Kind::SumSquare>, ".t", ""},
      {"TopK", 7, 21, topK, ".t", "k = 1"},
  };
  return rows;
}
