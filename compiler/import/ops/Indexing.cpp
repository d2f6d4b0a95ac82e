//===- Indexing.cpp - gathers, scatters and selections by index -----------------------------------===//
//
// All operators become the batched gather and its adjoint scatter_add. A scatter of ones finds the elements that are
// overwritten. ONNX leaves the result of repeated indices undefined.
//
//   ScatterElements:  y = 0 < scatter_add(indices, 1) ? scatter_add(indices, updates) : data
//   GatherND:         k-tuples become row-major positions in the first k dimensions, seen as one
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/Indexing.h"

#include "dialects/graph/GraphAttributes.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

namespace tessera::compiler {

Val wrapIndices(Node &n, const Val &indices, int64_t extent) {
  Val below = n.b.binary<graph::LtOp>(indices, n.b.scalarLike(indices, 0), "negative");
  Val wrapped =
      n.b.select(below, n.b.add(indices, n.b.scalarLike(indices, double(extent)), "wrapped"), indices, "indices");
  if (wrapped.value)
    if (auto select = wrapped.value.getDefiningOp<graph::SelectOp>())
      select->setAttr(graph::kWrapsIndicesAttr, mlir::UnitAttr::get(n.b.context()));
  return wrapped;
}

/// The permutation that exchanges `axis` with the last dimension: its own inverse.
static Shape swapLast(int64_t axis, int64_t rank) {
  Shape perm;
  for (int64_t d = 0; d < rank; ++d)
    perm.push_back(d);
  std::swap(perm[axis], perm.back());
  return perm;
}

Val takeAlong(Node &n, const Val &x, const Val &indices, int64_t axis, llvm::StringRef suffix) {
  if (!x || !indices)
    return {};
  Shape perm = swapLast(axis, x.rank());
  std::string prefix = suffix.empty() ? "" : suffix.str() + "_";
  Val y = n.b.gather(n.b.transpose(x, perm, prefix + "to_last"),
                     n.b.transpose(indices, perm, prefix + "indices_to_last"), x.rank() - 1, suffix, x.rank() - 1);
  return n.b.transpose(y, perm, prefix + "from_last");
}

Val addAlong(Node &n, const Val &indices, const Val &updates, int64_t axis, int64_t size, llvm::StringRef suffix) {
  if (!indices || !updates)
    return {};
  Shape perm = swapLast(axis, updates.rank());
  std::string prefix = suffix.empty() ? "" : suffix.str() + "_";
  Val y = n.b.scatterAdd(n.b.transpose(indices, perm, prefix + "indices_to_last"),
                         n.b.transpose(updates, perm, prefix + "to_last"), updates.rank() - 1, size, suffix,
                         updates.rank() - 1);
  return n.b.transpose(y, perm, prefix + "from_last");
}

} // namespace tessera::compiler

static bool checkIndices(Node &n, const Val &indices) {
  if (indices && (indices.type == DType::I64 || indices.type == DType::I32))
    return true;
  if (indices)
    n.fail("the indices are " + dtypeName(indices.type) + ", not int64 or int32");
  return false;
}

/// Checks known indices before negative ones are wrapped, so that the error shows them as the file has them.
static bool checkRange(Node &n, const Val &indices, int64_t extent, int64_t axis) {
  if (indices.known)
    for (int64_t i = 0; i < indices.known->stored(); ++i)
      if (const int64_t at = indices.known->intAt(i); at < -extent || at >= extent) {
        n.fail("index " + Twine(at) + " lies outside the extent " + Twine(extent) + " of dimension " + Twine(axis));
        return false;
      }
  return true;
}

//===----------------------------------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------------------------------===//

static void gather(Node &n) {
  Val x = n.in(0), indices = n.in(1);
  if (!x || !checkIndices(n, indices))
    return;
  if (x.rank() == 0)
    return (void)n.fail("cannot gather from a scalar");
  int64_t axis = n.axis(n.attrInt("axis", 0), x.rank());
  if (x.rank() + indices.rank() - 1 > kMaxRank)
    return (void)n.fail("the result has too many dimensions");
  if (n.failed() || !checkRange(n, indices, x.shape[axis], axis))
    return;
  indices = wrapIndices(n, indices, x.shape[axis]);
  if (n.failed())
    return;
  // Known consecutive indices become a slice, which is cheaper.
  if (indices.known && !x.known && indices.rank() <= 1 && indices.size() > 0) {
    int64_t first = indices.known->intAt(0), count = indices.size();
    bool run = true;
    for (int64_t i = 0; i < count && run; ++i)
      run = indices.known->intAt(i) == first + i;
    if (run && first >= 0 && first + count <= x.shape[axis]) {
      Shape starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1), shape;
      starts[axis] = first;
      limits[axis] = first + count;
      Val y = n.b.slice(x, starts, limits, strides);
      if (indices.rank() == 0 && y) {
        shape = y.shape;
        shape.erase(shape.begin() + axis);
        y = n.b.reshape(y, shape, "drop");
      }
      return n.out(0, y);
    }
  }
  n.out(0, n.b.gather(x, indices, axis));
}

/// Whether indices have the rank of the data and, except along `axis`, extents that are not larger.
static bool checkAlong(Node &n, const Val &x, const Val &indices, int64_t axis) {
  bool good = x.rank() > 0 && indices.rank() == x.rank();
  for (int64_t d = 0; good && d < x.rank(); ++d)
    good = d == axis || indices.shape[d] <= x.shape[d];
  if (!good)
    n.fail("the indices " + shapeText(indices.shape) + " do not fit the data " + shapeText(x.shape) + " along axis " +
           Twine(axis));
  return good;
}

/// The part of x that indices of this shape reach.
static Val reached(Node &n, const Val &x, const Val &indices, int64_t axis) {
  Shape starts(x.rank(), 0), limits = indices.shape, strides(x.rank(), 1);
  limits[axis] = x.shape[axis];
  return n.b.slice(x, starts, limits, strides, "reached");
}

static void gatherElements(Node &n) {
  Val x = n.in(0), indices = n.in(1);
  if (!x || !checkIndices(n, indices))
    return;
  int64_t axis = n.axis(n.attrInt("axis", 0), x.rank());
  if (n.failed() || !checkAlong(n, x, indices, axis) || !checkRange(n, indices, x.shape[axis], axis))
    return;
  n.out(0, takeAlong(n, reached(n, x, indices, axis), wrapIndices(n, indices, x.shape[axis]), axis));
}

/// Converts index tuples [..., k] to row-major positions [...] within the k extents.
static Val positions(Node &n, const Val &indices, llvm::ArrayRef<int64_t> extents) {
  Val wide = n.b.cast(indices, DType::I64, "indices_wide"), sum;
  Shape starts(wide.rank(), 0), limits = wide.shape, strides(wide.rank(), 1), shape = wide.shape;
  shape.pop_back();
  int64_t stride = 1;
  for (auto k = int64_t(extents.size()) - 1; k >= 0; --k) {
    std::string suffix = "index" + std::to_string(k);
    starts.back() = k;
    limits.back() = k + 1;
    Val part = n.b.reshape(n.b.slice(wide, starts, limits, strides, suffix), shape, suffix + "_reshape");
    part = wrapIndices(n, part, extents[k]);
    part = n.b.scale(part, double(stride), suffix + "_scaled");
    sum = sum ? n.b.add(sum, part, suffix + "_sum") : part;
    stride *= extents[k];
  }
  return sum;
}

/// Merges `count` dimensions of x, from `first` on, into one.
static Val flattened(Node &n, const Val &x, int64_t first, int64_t count) {
  Shape shape(x.shape.begin(), x.shape.begin() + first);
  shape.push_back(*elementCount(llvm::ArrayRef<int64_t>(x.shape).slice(first, count)));
  shape.append(x.shape.begin() + first + count, x.shape.end());
  return n.b.reshape(x, shape, "flatten");
}

static void gatherND(Node &n) {
  Val x = n.in(0), indices = n.in(1);
  int64_t batch = n.attrInt("batch_dims", 0);
  if (!x || !checkIndices(n, indices))
    return;
  if (batch < 0 || batch >= x.rank() || batch >= indices.rank() ||
      llvm::ArrayRef<int64_t>(x.shape).take_front(batch) != llvm::ArrayRef<int64_t>(indices.shape).take_front(batch) ||
      indices.shape.back() < 1 || indices.shape.back() > x.rank() - batch || indices.rank() + x.rank() > kMaxRank)
    return (void)n.fail("the indices " + shapeText(indices.shape) + " do not fit the data " + shapeText(x.shape) +
                        " with " + Twine(batch) + " batch dimensions");
  int64_t k = indices.shape.back();
  Val at = positions(n, indices, llvm::ArrayRef<int64_t>(x.shape).slice(batch, k));
  n.out(0, n.b.gather(flattened(n, x, batch, k), at, batch, "", batch));
}

//===----------------------------------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------------------------------===//

/// The result of a scatter: data with elements that the updates replace, or to which they are added. `put` scatters
/// values of the updates' shape into zeros of the data's shape.
template <typename Put> static Val scattered(Node &n, const Val &data, const Val &updates, Put put) {
  std::string reduction = n.attrString("reduction", "none");
  if (!data || !updates || n.failed())
    return {};
  if (data.type != updates.type)
    return n.fail("the data are " + dtypeName(data.type) + " but the updates " + dtypeName(updates.type));
  DType type = data.type == DType::I1 ? DType::I32 : data.type; // booleans have no sum
  Val sum = n.b.cast(put(n.b.cast(updates, type, "updates_wide"), "sum"), data.type, "sum_narrow");
  if (reduction == "add")
    return n.b.add(data, sum);
  if (reduction != "none")
    return n.fail("reduction='" + reduction + "' is not supported: none and add are");
  Val ones = n.b.known(Constant::splat(DType::F32, updates.shape, 1));
  Val count = put(ones, "count");
  return n.b.select(n.b.binary<graph::LtOp>(n.b.scalar(DType::F32, 0), count, "hit"), sum, data);
}

/// Scatters known values at import, because exporters compute shapes and masks so. Null if not all are known, or if
/// they are too large to fold.
static Val knownScatter(Node &n, const Val &data, const Val &at, const Val &updates, int64_t axis) {
  std::string reduction = n.attrString("reduction", "none");
  bool adds = reduction == "add";
  if (!data.known || !at.known || !updates.known || data.type != updates.type || data.type == DType::I1 ||
      (reduction != "none" && !adds) || !n.b.mayFold(data.size() + updates.size()))
    return {};
  std::vector<int64_t> ints(data.size());
  std::vector<double> floats(data.size());
  for (int64_t i = 0; i < data.size(); ++i) {
    ints[i] = data.known->intAt(i);
    floats[i] = data.known->floatAt(i);
  }
  for (int64_t i = 0; i < at.size(); ++i) {
    int64_t index = at.known->intAt(i), to = 0, rest = i, stride = 1;
    if (index < 0 || index >= data.shape[axis])
      return n.fail("index " + Twine(index) + " lies outside the extent " + Twine(data.shape[axis]) + " of dimension " +
                    Twine(axis));
    for (int64_t d = data.rank() - 1; d >= 0; --d) {
      to += (d == axis ? index : rest % at.shape[d]) * stride;
      rest /= at.shape[d];
      stride *= data.shape[d];
    }
    ints[to] = int64_t(uint64_t(adds ? ints[to] : 0) + uint64_t(updates.known->intAt(i)));
    floats[to] =
        roundTo(isFloat(data.type) ? data.type : DType::F64, (adds ? floats[to] : 0) + updates.known->floatAt(i));
  }
  return n.b.known(isFloat(data.type) ? Constant::floats(data.type, data.shape, std::move(floats))
                                      : Constant::ints(data.type, data.shape, std::move(ints)));
}

static void scatterElements(Node &n) {
  Val data = n.in(0), indices = n.in(1), updates = n.in(2);
  if (!data || !updates || !checkIndices(n, indices))
    return;
  int64_t axis = n.axis(n.attrInt("axis", 0), data.rank());
  if (n.failed() || !checkAlong(n, data, indices, axis))
    return;
  if (updates.shape != indices.shape)
    return (void)n.fail("the updates " + shapeText(updates.shape) + " do not have the shape " +
                        shapeText(indices.shape) + " of the indices");
  if (updates.size() == 0)
    return n.out(0, data);
  Val at = wrapIndices(n, indices, data.shape[axis]);
  if (Val folded = knownScatter(n, data, at, updates, axis); folded || n.failed())
    return n.out(0, folded);
  n.out(0, scattered(n, data, updates, [&](const Val &values, const std::string &suffix) {
          Val y = addAlong(n, at, values, axis, data.shape[axis], suffix);
          Shape lo(data.rank(), 0), hi(data.rank(), 0);
          for (int64_t d = 0; y && d < data.rank(); ++d)
            hi[d] = data.shape[d] - y.shape[d];
          return n.b.pad(y, lo, hi, 0, suffix + "_pad");
        }));
}

static void scatterND(Node &n) {
  Val data = n.in(0), indices = n.in(1), updates = n.in(2);
  if (!data || !updates || !checkIndices(n, indices))
    return;
  int64_t k = indices.rank() > 0 ? indices.shape.back() : 0;
  Shape expected(indices.shape.begin(), indices.shape.end() - (indices.rank() > 0 ? 1 : 0));
  if (k >= 1 && k <= data.rank())
    expected.append(data.shape.begin() + k, data.shape.end());
  if (k < 1 || k > data.rank() || updates.shape != expected)
    return (void)n.fail("the indices " + shapeText(indices.shape) + " and updates " + shapeText(updates.shape) +
                        " do not fit the data " + shapeText(data.shape));
  if (updates.size() == 0)
    return n.out(0, data);
  llvm::ArrayRef<int64_t> extents = llvm::ArrayRef<int64_t>(data.shape).take_front(k);
  Val at = positions(n, indices, extents);
  if (data.known && at.known && updates.known && data.size() > 0) { // rows of the k dimensions as one
    int64_t rows = *elementCount(extents), row = data.size() / rows, count = at.size();
    Val wide = n.b.broadcast(n.b.reshape(at, {count, 1}, "rows"), {count, row}, "row");
    Val folded = knownScatter(n, n.b.reshape(data, {rows, row}, "data_rows"), wide,
                              n.b.reshape(updates, {count, row}, "update_rows"), 0);
    if (folded || n.failed())
      return n.out(0, n.b.reshape(folded, data.shape, "unflatten"));
  }
  n.out(0, scattered(n, data, updates, [&](const Val &values, const std::string &suffix) {
          Val flat = n.b.scatterAdd(at, values, 0, *elementCount(extents), suffix);
          return n.b.reshape(flat, data.shape, suffix + "_reshape");
        }));
}

/// A cache whose rows from writeIndices[b] on are overwritten by the update: row i becomes row i - writeIndices[b] of
/// the update, if there is such a row.
static void tensorScatter(Node &n) {
  Val cache = n.in(0), update = n.in(1), first = n.opt(2);
  std::string mode = n.attrString("mode", "linear");
  if (n.failed())
    return;
  int64_t axis = n.axis(n.attrInt("axis", -2), cache.rank());
  if (n.failed())
    return;
  Shape like = cache.shape;
  if (update.rank() == cache.rank())
    like[axis] = update.shape[axis];
  if (axis == 0 || update.shape != like || update.type != cache.type || update.shape[axis] > cache.shape[axis] ||
      (first && (first.rank() != 1 || first.shape[0] != cache.shape[0] || isFloat(first.type))))
    return (void)n.fail("the update " + shapeText(update.shape) + " does not fit the cache " + shapeText(cache.shape) +
                        " along axis " + Twine(axis) + ", or write_indices are not one number a sample");
  if (mode != "linear" && mode != "circular")
    return (void)n.fail("mode='" + mode + "' is unknown");
  if (update.size() == 0)
    return n.out(0, cache);
  const int64_t rows = cache.shape[axis], fresh = update.shape[axis], batch = cache.shape[0];
  Shape perm; // brings rows behind the batch
  for (int64_t d = 0; d < cache.rank(); ++d)
    perm.push_back(d);
  std::swap(perm[1], perm[axis]);
  Val at = n.b.iota(DType::I64, {1, rows}, 1, "rows");
  if (first)
    at = n.b.sub(at, n.b.reshape(n.b.cast(first, DType::I64, "first_wide"), {batch, 1}, "first"), "source");
  if (mode == "circular")
    at = n.b.binary<graph::ModOp>(at, n.b.scalar(DType::I64, double(rows)), "wrapped");
  at = n.b.broadcast(at, {batch, rows}, "sources");
  Val low = n.b.binary<graph::LeOp>(n.b.scalarLike(at, 0), at, "from_first");
  Val high = n.b.binary<graph::LtOp>(at, n.b.scalarLike(at, double(fresh)), "to_last");
  Val inside = n.b.binary<graph::AndOp>(low, high, "inside");
  Val row = n.b.select(inside, at, n.b.scalarLike(at, 0), "row");
  Val taken = n.b.gather(n.b.transpose(update, perm, "rows_first"), row, 1, "taken", 1);
  Shape line(cache.rank(), 1);
  line[0] = batch;
  line[axis] = rows;
  n.out(0, n.b.select(n.b.reshape(inside, line, "inside_reshape"), n.b.transpose(taken, perm, "rows_back"), cache));
}

//===----------------------------------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------------------------------===//

/// y[..., k, ...] = indices[...] == k ? on : off
static void oneHot(Node &n) {
  Val indices = n.in(0), values = n.in(2);
  Val depth = n.in(1);
  if (n.failed())
    return;
  int64_t axis = n.axis(n.attrInt("axis", -1), indices.rank() + 1);
  if (n.failed() || !depth.known || depth.size() != 1 || depth.known->intAt(0) < 1 || values.rank() != 1 ||
      values.shape[0] != 2 || indices.rank() >= kMaxRank)
    return (void)n.fail("depth must be one positive number known at import and values two");
  int64_t extent = depth.known->intAt(0);
  indices = wrapIndices(n, n.b.cast(indices, DType::I64, "cast"), extent);
  if (!indices)
    return;
  Shape wide = indices.shape, line(indices.rank() + 1, 1);
  wide.insert(wide.begin() + axis, 1);
  line[axis] = extent;
  Val hit = n.b.binary<graph::EqOp>(n.b.reshape(indices, wide, "expand"), n.b.iota(DType::I64, line, axis, "classes"),
                                    "equal");
  Val off = n.b.reshape(n.b.slice(values, {0}, {1}, {1}, "off_slice"), {}, "off");
  Val on = n.b.reshape(n.b.slice(values, {1}, {2}, {1}, "on_slice"), {}, "on");
  n.out(0, n.b.select(hit, on, off));
}

/// The elements where a known condition holds.
static void compress(Node &n) {
  Val x = n.in(0), condition = n.in(1);
  bool flat = !n.hasAttr("axis");
  if (n.failed())
    return;
  int64_t axis = flat ? 0 : n.axis(n.attrInt("axis", 0), x.rank());
  if (flat)
    x = n.b.reshape(x, {x.size()}, "flatten");
  if (n.failed())
    return;
  if (!condition.known || condition.rank() != 1 || condition.size() > x.shape[axis])
    return (void)n.fail("the condition must be a vector known at import, else the result's shape "
                        "depends on data");
  Shape kept;
  for (int64_t i = 0; i < condition.size(); ++i)
    if (condition.known->intAt(i) != 0)
      kept.push_back(i);
  n.out(0, n.b.gather(x, n.b.knownInts(kept), axis));
}

/// The first lens[b] elements of every batch in reverse order.
static void reverseSequence(Node &n) {
  Val x = n.in(0), lens = n.in(1);
  int64_t time = n.attrInt("time_axis", 0), batch = n.attrInt("batch_axis", 1);
  if (n.failed())
    return;
  if (x.rank() < 2 || time + batch != 1 || time * batch != 0 || lens.rank() != 1 || lens.shape[0] != x.shape[batch] ||
      isFloat(lens.type))
    return (void)n.fail("time_axis and batch_axis must be 0 and 1 and sequence_lens " + shapeText(lens.shape) +
                        " fit the input " + shapeText(x.shape));
  Shape perm;
  for (int64_t d = 0; d < x.rank(); ++d)
    perm.push_back(d);
  if (time == 0)
    std::swap(perm[0], perm[1]);
  Val y = n.b.transpose(x, perm, "batch_first");
  if (!y)
    return;
  Val at = n.b.iota(DType::I64, {1, y.shape[1]}, 1, "time");
  Val length = n.b.reshape(n.b.cast(lens, DType::I64, "lens"), {y.shape[0], 1}, "lens_column");
  Val last = n.b.sub(length, n.b.scalarLike(length, 1), "last");
  Val source = n.b.select(n.b.binary<graph::LtOp>(at, length, "inside"), n.b.sub(last, at, "mirrored"), at, "source");
  n.out(0, n.b.transpose(n.b.gather(y, source, 1, "", 1), perm, "time_first"));
}

static void topK(Node &n) {
  Val x = n.in(0);
  Shape k;
  if (n.opset < 10)
    k = {n.attrInt("k", 0)};
  else if (auto given = n.knownInts(1, "k"))
    k = *given;
  int64_t axis = n.axis(n.attrInt("axis", -1), x.rank());
  bool largest = n.attrInt("largest", 1) != 0;
  n.ignoreAttr("sorted"); // sorted is one of the orders that sorted=0 allows
  if (n.failed())
    return;
  if (k.size() != 1 || k[0] < 1 || k[0] > x.shape[axis])
    return (void)n.fail("k must be one number from 1 to the extent " + Twine(x.shape[axis]));
  Val order = n.b.create<graph::TopKOp>(
      x, {n.b.attr("k", k[0]), n.b.attr("dim", axis), n.b.attrBool("smallest", !largest)}, "indices")[0];
  n.out(1, order);
  if (!n.wanted(0))
    return;
  // With k = 1 it is a maximum, whose dimension may be sharded.
  if (k[0] == 1)
    return n.out(0, largest ? n.b.reduce<graph::ReduceMaxOp>(x, {axis}, true)
                            : n.b.reduce<graph::ReduceMinOp>(x, {axis}, true));
  n.out(0, takeAlong(n, x, order, axis));
}

llvm::ArrayRef<OpRow> tessera::compiler::indexingOps() {
  static const OpRow rows[] = {
      {"Compress", 9, kNewestOpset, compress, ".t", "condition known at import"},
      {"Gather", 7, kNewestOpset, gather, "et", "indices int64 or int32"},
      {"GatherElements", 11, kNewestOpset, gatherElements, ".t", "indices int64 or int32"},
      {"GatherND", 11, kNewestOpset, gatherND, ".t", "indices int64 or int32"},
      {"OneHot", 9, kNewestOpset, oneHot, "tct", "depth known at import"},
      {"ReverseSequence", 10, kNewestOpset, reverseSequence, ".t", ""},
      {"Scatter", 9, 10, scatterElements, ".t.", "indices int64 or int32"},
      {"ScatterElements", 11, kNewestOpset, scatterElements, ".t.", "indices int64 or int32; reduction none and add"},
      {"ScatterND", 11, kNewestOpset, scatterND, ".t.", "indices int64 or int32; reduction none and add"},
      {"TensorScatter", 24, kNewestOpset, tensorScatter, "..t", ""},
      {"TopK", 7, kNewestOpset, topK, ".t", "k known at import"},
  };
  return rows;
}
