//===- PoolIndices.cpp - indices of maxima, and MaxUnpool --------------------------------------------------===//
//
// MaxPool's second output holds the indices of the maxima, and MaxUnpool writes values to such indices. An index is a
// linear index into MaxPool's input [n, c, spatial...]. It is the sum of three offsets: of the plane in the tensor, of
// the window in the plane, and of the element in the window. The last comes from a table.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/ConvPool.h"

#include <limits>

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

/// The strides of the spatial dimensions in the linear index.
static Shape stridesIn(llvm::ArrayRef<int64_t> extents, bool columnMajor) {
  Shape strides(extents.size(), 1);
  for (size_t i = 1; i < extents.size(); ++i) {
    size_t d = columnMajor ? i : extents.size() - 1 - i, before = columnMajor ? d - 1 : d + 1;
    strides[d] = strides[before] * extents[before];
  }
  return strides;
}

/// The index of every plane's first element: [n, c, 1, ...].
static Val planes(Node &n, const Val &x, int64_t size) {
  Shape batch(x.rank(), 1), channel(x.rank(), 1);
  batch[0] = x.shape[0];
  channel[1] = x.shape[1];
  Val first = n.b.iota(DType::I64, batch, 0, "samples");
  Val second = n.b.iota(DType::I64, channel, 1, "channels");
  return n.b.add(n.b.scale(first, double(x.shape[1] * size), "samples_scaled"),
                 n.b.scale(second, double(size), "channels_scaled"), "planes");
}

Val tessera::compiler::indicesOfMaxima(Node &n, const Val &x, const Window &w, bool columnMajor) {
  const size_t spatial = w.kernel.size();
  Shape extents(x.shape.begin() + 2, x.shape.end()), strides = stridesIn(extents, columnMajor);
  Shape lo(x.rank(), 0), hi(x.rank(), 0);
  for (size_t d = 0; d < spatial; ++d) {
    lo[d + 2] = w.pads[d];
    hi[d + 2] = w.pads[spatial + d];
  }
  DType type = isFloat(x.type) ? x.type : DType::F64;
  Val wide =
      n.b.pad(n.b.cast(x, type, "indices_wide"), lo, hi, -std::numeric_limits<double>::infinity(), "indices_padded");
  // Gathers the elements of every window, dimension by dimension, to [n, c, o0, k0, o1, k1, ...]. Then a transpose
  // moves the kernel dimensions k to the end.
  Shape split{x.shape[0], x.shape[1]}, perm{0, 1}, windows = split, base(x.rank(), 1);
  int64_t size = 1;
  Val start = n.b.known(Constant::scalar(DType::I64, 0));
  for (size_t d = 0; wide && d < spatial; ++d) {
    int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    int64_t out = (wide.shape[d + 2] - reach) / w.strides[d] + 1;
    if (!n.b.mayFold(out * w.kernel[d]))
      return n.fail("the windows are too many");
    Shape rows, starts;
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < w.kernel[d]; ++k)
        rows.push_back(o * w.strides[d] + k * w.dilations[d]);
      starts.push_back((o * w.strides[d] - w.pads[d]) * strides[d]);
    }
    std::string suffix = "indices_dim" + std::to_string(d + 2);
    wide = n.b.gather(wide, n.b.knownInts(rows), int64_t(d) + 2, suffix);
    split.append({out, w.kernel[d]});
    perm.push_back(int64_t(2 * d) + 2);
    windows.push_back(out);
    base.assign(x.rank(), 1);
    base[d + 2] = out;
    start = n.b.add(start, n.b.reshape(n.b.knownInts(starts), base), suffix + "_start");
    size *= w.kernel[d];
  }
  for (size_t d = 0; d < spatial; ++d)
    perm.push_back(int64_t(2 * d) + 3);
  if (n.failed() || split.size() > size_t(kMaxRank) || !n.b.mayFold(size))
    return n.fail("the windows of " + shapeText(w.kernel) + " are too many");
  // The offset of the k-th element of a window from its first one.
  Shape way(size, 0);
  for (int64_t k = 0; k < size; ++k)
    for (int64_t d = int64_t(spatial) - 1, rest = k; d >= 0; --d) {
      way[k] += rest % w.kernel[d] * w.dilations[d] * strides[d];
      rest /= w.kernel[d];
    }
  windows.push_back(size);
  Val y = n.b.reshape(n.b.transpose(n.b.reshape(wide, split, "indices_split"), perm, "indices_order"), windows,
                      "indices_windows");
  Val best =
      n.b.create<graph::ArgMaxOp>(y, {n.b.attr("dim", x.rank()), n.b.attrBool("keepdims", false)}, "indices_best")[0];
  Val inPlane = n.b.add(n.b.gather(n.b.knownInts(way), best, 0, "indices_way"), start, "indices_in_plane");
  return n.b.add(inPlane, planes(n, x, *elementCount(extents)), "indices");
}

/// Writes the values to their indices in a tensor of zeros. Windows that overlap write equal values.
static void maxUnpool(Node &n) {
  Val x = n.in(0), indices = n.in(1);
  Shape none;
  auto kernel = n.attrInts("kernel_shape");
  Shape strides = n.attrInts("strides").value_or(kernel ? Shape(kernel->size(), 1) : none);
  Shape pads = n.attrInts("pads").value_or(kernel ? Shape(2 * kernel->size(), 0) : none);
  auto given = n.knownInts(2, "output_shape");
  if (n.failed())
    return;
  const auto spatial = size_t(std::max<int64_t>(0, x.rank() - 2));
  if (!kernel || spatial < 1 || kernel->size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial ||
      indices.shape != x.shape || indices.type != DType::I64 || !isFloat(x.type) ||
      (given && given->size() != spatial + 2))
    return (void)n.fail("kernel_shape, strides, pads, output_shape or the indices " + shapeText(indices.shape) +
                        " do not fit the input " + shapeText(x.shape));
  constexpr int64_t most = 1 << 20;
  int64_t size = 1, places = 1;
  Shape whole{x.shape[0], x.shape[1]};
  for (size_t d = 0; d < spatial; ++d) {
    for (int64_t v : {(*kernel)[d], strides[d], pads[d] + 1, pads[spatial + d] + 1})
      if (v < 1 || v > most || x.shape[d + 2] > most)
        return (void)n.fail("kernel_shape, strides or pads are out of range");
    int64_t extent = (x.shape[d + 2] - 1) * strides[d] + (*kernel)[d] - pads[d] - pads[spatial + d];
    if (extent < 1)
      return (void)n.fail("the output's extent " + Twine(extent) + " is not possible");
    whole.push_back(extent);
    places *= x.shape[d + 2];
  }
  if (!elementCount(whole))
    return (void)n.fail("the result's shape " + shapeText(whole) + " is too large");
  for (size_t d = 0; d < spatial; ++d)
    size *= whole[d + 2];
  Val at = n.b.sub(indices, planes(n, x, size), "in_plane");
  Shape rows{x.shape[0], x.shape[1], places};
  at = n.b.reshape(at, rows, "index_rows");
  Val sum = n.b.scatterAdd(at, n.b.reshape(x, rows, "rows"), 2, size, "sum", 2);
  Val count = n.b.scatterAdd(at, n.b.known(Constant::splat(x.type, rows, 1)), 2, size, "count", 2);
  Val y = n.b.div(sum, n.b.binary<graph::MaxOp>(count, n.b.scalarLike(x, 1), "count_or_one"), "values");
  Shape lo(x.rank(), 0), hi(x.rank(), 0);
  for (int64_t d = 0; given && d < x.rank(); ++d) {
    hi[d] = (*given)[d] - whole[d];
    if (hi[d] < 0 || hi[d] > most)
      return (void)n.fail("output_shape " + shapeText(*given) + " is not possible for " + shapeText(whole));
  }
  n.out(0, n.b.pad(n.b.reshape(y, whole, "planes"), lo, hi, 0));
}

llvm::ArrayRef<OpRow> tessera::compiler::poolIndicesOps() {
  static const OpRow rows[] = {
      {"MaxUnpool", 9, kNewestOpset, maxUnpool, ".tt", "output_shape known at import, at least what follows"},
  };
  return rows;
}
