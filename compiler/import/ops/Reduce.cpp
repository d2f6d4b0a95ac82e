//===- Reduce.cpp - reductions, arg max, cumulative sums --------------------------------------===//

#include "compiler/import/ops/Reduce.h"

#include <limits>

using namespace tessera;
using namespace tessera::compiler;

bool tessera::compiler::isSumOfSquares(const Val &x) {
  mlir::Value v = x.value;
  auto constant = [](mlir::Value f) { return f.getDefiningOp<graph::ConstantOp>() != nullptr; };
  while (v) {
    if (auto mul = v.getDefiningOp<graph::MulOp>(); mul && constant(mul.getB()))
      v = mul.getA();
    else if (auto div = v.getDefiningOp<graph::DivOp>(); div && constant(div.getB()))
      v = div.getA();
    else if (auto reshape = v.getDefiningOp<graph::ReshapeOp>())
      v = reshape.getX();
    else
      break;
  }
  auto sum = v ? v.getDefiningOp<graph::ReduceSumOp>() : graph::ReduceSumOp();
  auto square = sum ? sum.getX().getDefiningOp<graph::MulOp>() : graph::MulOp();
  return square && square.getA() == square.getB();
}

Val tessera::compiler::rootOfSquares(Node &n, const Val &squares, llvm::StringRef last) {
  std::string prefix = last.empty() ? "" : last.str() + "_";
  if (!n.function.training())
    return n.b.unary<graph::SqrtOp>(squares, last);
  Val zero = n.b.scalarLike(squares, 0);
  Val none = n.b.binary<graph::EqOp>(squares, zero, prefix + "is_zero");
  Val some = n.b.select(none, n.b.scalarLike(squares, 1), squares, prefix + "not_zero");
  return n.b.select(none, zero, n.b.unary<graph::SqrtOp>(some, last), prefix + "or_zero");
}

/// The dimensions that a reduction runs over; none if noop_with_empty_axes is set and the node has no axes. nullopt:
/// the node failed.
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
  if (x.type == DType::I1) { // "is any" and "are all"
    if (kind != Kind::Max && kind != Kind::Min)
      return (void)n.fail("booleans are not supported");
    Val bits = n.b.cast(x, DType::UI8, "bits");
    bits = kind == Kind::Max ? n.b.reduce<graph::ReduceMaxOp>(bits, *dims, keep, "reduced")
                             : n.b.reduce<graph::ReduceMinOp>(bits, *dims, keep, "reduced");
    return n.out(0, n.b.cast(bits, DType::I1));
  }
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
    return (void)n.fail("an input of type " + dtypeName(x.type) + " is not supported: it must be floating point");
  if (kind == Kind::L2)
    return n.out(0, rootOfSquares(n, sum(n.b.mul(x, x, "square")), "sqrt"));
  if (kind == Kind::LogSum)
    return n.out(0, n.b.unary<graph::LogOp>(sum(x), "log"));
  // log sum exp: subtracting the maximum first avoids overflow.
  Val max = n.b.reduce<graph::ReduceMaxOp>(x, *dims, true, "max");
  Val y = sum(n.b.unary<graph::ExpOp>(n.b.sub(x, max, "shifted"), "exp"));
  y = n.b.unary<graph::LogOp>(y, "log");
  if (!y)
    return;
  n.out(0, n.b.add(y, n.b.reshape(max, y.shape, "max_reshape"), "unshifted"));
}

/// A product of n elements along one dimension in about log2(n) steps: the first half times the second.
static Val product(Node &n, Val x, int64_t dim) {
  std::string suffix = "dim" + std::to_string(dim);
  Shape starts(x.rank(), 0), strides(x.rank(), 1);
  Val odd;
  while (x && x.shape[dim] > 1) {
    auto part = [&](int64_t first, int64_t count) {
      Shape from = starts, to = x.shape;
      from[dim] = first;
      to[dim] = first + count;
      return n.b.slice(x, from, to, strides, suffix + "_slice");
    };
    int64_t half = x.shape[dim] / 2;
    if (x.shape[dim] % 2 != 0) {
      Val last = part(2 * half, 1);
      odd = odd ? n.b.mul(odd, last, suffix + "_odd") : last;
    }
    x = n.b.mul(part(0, half), part(half, half), suffix + "_halves");
  }
  return odd ? n.b.mul(x, odd, suffix) : x;
}

static void reduceProd(Node &n) {
  Val x = n.in(0);
  auto dims = reducedDims(n, x, 17);
  bool keep = n.attrInt("keepdims", 1) != 0;
  if (n.failed() || !dims)
    return;
  if (x.type == DType::I1)
    return (void)n.fail("booleans are not supported");
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool reduced = llvm::is_contained(*dims, d);
    if (reduced && x.shape[d] == 0)
      return (void)n.fail("the product of no elements is not supported");
    if (!reduced || keep)
      shape.push_back(reduced ? 1 : x.shape[d]);
  }
  for (int64_t d : *dims)
    x = product(n, x, d);
  n.out(0, n.b.reshape(x, shape));
}

/// x in reverse order along a dimension.
static Val reversed(Node &n, const Val &x, int64_t dim) {
  Shape indices;
  for (int64_t i = x.shape[dim] - 1; i >= 0; --i)
    indices.push_back(i);
  return n.b.gather(x, n.b.knownInts(indices), dim, "reverse");
}

template <bool minimum> static void argMax(Node &n) {
  Val x = n.in(0);
  int64_t axis = n.axis(n.attrInt("axis", 0), x.rank());
  bool keep = n.attrInt("keepdims", 1) != 0, last = n.attrInt("select_last_index", 0) != 0;
  if (x && x.type == DType::I1)
    n.fail("booleans are not supported");
  if (n.failed())
    return;
  if (minimum) { // int64, so that the lowest integer and unsigned ones can be negated
    if (!isFloat(x.type))
      x = n.b.cast(x, DType::I64, "wide");
    x = n.b.unary<graph::NegOp>(x, "neg");
  }
  if (last && x)
    x = reversed(n, x, axis);
  Val y = n.b.create<graph::ArgMaxOp>(x, {n.b.attr("dim", axis), n.b.attrBool("keepdims", keep)},
                                      last ? "from_end" : "")[0];
  if (last && y)
    y = n.b.sub(n.b.scalarLike(y, double(x.shape[axis] - 1)), y);
  n.out(0, y);
}

/// The cumulative sum of a known value, computed at import.
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
      total = int64_t(uint64_t(total) + uint64_t(x.known->intAt(at)));
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

/// keep[i, j]: whether sum i includes element j.
static Val cumSumMask(Node &n, int64_t extent, bool exclusive, bool reverse) {
  Val i = n.b.iota(DType::I64, {extent, extent}, 0, "rows"), j = n.b.iota(DType::I64, {extent, extent}, 1, "columns");
  Val low = reverse ? i : j, high = reverse ? j : i;
  return exclusive ? n.b.binary<graph::LtOp>(low, high, "keep") : n.b.binary<graph::LeOp>(low, high, "keep");
}

/// y[i] = sum over j of (keep[i, j] ? x[j] : 0). This is exact for wide integers, which a matrix product is not.
static Val cumSumOfIntegers(Node &n, const Val &x, int64_t axis, bool exclusive, bool reverse) {
  int64_t extent = x.shape[axis];
  Shape wide = x.shape, mask(x.rank() + 1, 1);
  wide.insert(wide.begin() + axis, 1);
  mask[axis] = mask[axis + 1] = extent;
  Val keep = n.b.reshape(cumSumMask(n, extent, exclusive, reverse), mask, "keep_reshape");
  Val terms = n.b.select(keep, n.b.reshape(x, wide, "terms_reshape"), n.b.scalarLike(x, 0), "terms");
  return n.b.reduce<graph::ReduceSumOp>(terms, {axis + 1}, false);
}

/// A product with a triangular matrix of ones. It is exact for 32-bit integers (in f64). For floating point it is exact
/// up to the order of the additions.
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
  if (x.type == DType::I1 || extent > (1 << 20))
    return (void)n.fail("booleans or more than 2^20 elements per sum are not supported");
  if (!isFloat(x.type))
    return n.out(0, cumSumOfIntegers(n, x, axis, exclusive, reverse));
  // y[i] = sum over j of triangle[i, j] x[j], with triangle[i, j] = j <= i (or <, or the other way
  // round).
  Val keep = cumSumMask(n, extent, exclusive, reverse);
  Val triangle = n.b.cast(keep, x.type, "triangle"), y = x;
  // The summed dimension goes last but one, or last where there is only one.
  Shape perm;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != axis)
      perm.push_back(d);
  bool last = axis == x.rank() - 1;
  perm.insert(last ? perm.end() : perm.end() - 1, axis);
  Shape inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d)
    inverse[perm[d]] = int64_t(d);
  y = n.b.transpose(y, perm, "to_back");
  if (last) {
    Shape shape = x.shape;
    if (x.rank() == 1)
      y = n.b.reshape(y, {1, extent}, "row");
    y = n.b.reshape(n.b.matmul(y, triangle, false, true), shape, "vector");
  } else {
    y = n.b.matmul(triangle, y);
  }
  n.out(0, n.b.transpose(y, inverse, "from_back"));
}

/// A parallel prefix: after each step y[i] is the product of the 1, 2, 4, ... elements up to i. A step multiplies y[i]
/// by the product that ends right before the elements of y[i].
static void cumProd(Node &n) {
  Val x = n.in(0);
  n.in(1);
  auto given = n.knownInts(1, "axis");
  bool exclusive = n.attrInt("exclusive", 0) != 0, reverse = n.attrInt("reverse", 0) != 0;
  if (n.failed() || given->size() != 1)
    return (void)n.fail("axis must be one number");
  int64_t axis = n.axis((*given)[0], x.rank());
  if (n.failed() || x.type == DType::I1)
    return (void)n.fail("booleans are not supported");
  const int64_t extent = x.shape[axis];
  auto shifted = [&](const Val &v, int64_t by, const std::string &what) {
    Shape starts(v.rank(), 0), limits = v.shape, strides(v.rank(), 1), lo(v.rank(), 0), hi(v.rank(), 0);
    (reverse ? starts[axis] : limits[axis]) = reverse ? by : extent - by;
    (reverse ? hi : lo)[axis] = by;
    return n.b.pad(n.b.slice(v, starts, limits, strides, what + "_part"), lo, hi, 1, what);
  };
  Val y = exclusive && extent > 0 ? shifted(x, 1, "exclusive") : x;
  for (int64_t by = 1; by < extent && y; by *= 2)
    y = n.b.mul(y, shifted(y, by, "shifted" + std::to_string(by)), 2 * by < extent ? "by" + std::to_string(by) : "");
  n.out(0, y);
}

llvm::ArrayRef<OpRow> tessera::compiler::reduceOps() {
  static const OpRow rows[] = {
      {"ArgMax", 7, kNewestOpset, argMax<false>, ".", ""},
      {"ArgMin", 7, kNewestOpset, argMax<true>, ".", ""},
      {"CumProd", 26, kNewestOpset, cumProd, ".t", ""},
      {"CumSum", 11, kNewestOpset, cumSum, ".t", ""},
      {"ReduceL1", 1, kNewestOpset, reduce<Kind::L1>, ".t", ""},
      {"ReduceL2", 1, kNewestOpset, reduce<Kind::L2>, ".t", "floating point"},
      {"ReduceLogSum", 1, kNewestOpset, reduce<Kind::LogSum>, ".t", "floating point"},
      {"ReduceLogSumExp", 1, kNewestOpset, reduce<Kind::LogSumExp>, ".t", "floating point"},
      {"ReduceMax", 1, kNewestOpset, reduce<Kind::Max>, ".t", ""},
      {"ReduceMean", 1, kNewestOpset, reduce<Kind::Mean>, ".t", "floating point"},
      {"ReduceMin", 1, kNewestOpset, reduce<Kind::Min>, ".t", ""},
      {"ReduceProd", 1, kNewestOpset, reduceProd, ".t", ""},
      {"ReduceSum", 1, kNewestOpset, reduce<Kind::Sum>, ".t", ""},
      {"ReduceSumSquare", 1, kNewestOpset, reduce<Kind::SumSquare>, ".t", ""},
  };
  return rows;
}
