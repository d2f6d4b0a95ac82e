//===- Movement.cpp - operators that only move data -------------------------------------------===//

#include "compiler/import/Node.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

static void reshape(Node &n) {
  Val x = n.in(0);
  n.in(1);
  auto target = n.knownInts(1, "shape");
  bool allowZero = n.attrInt("allowzero", 0) != 0;
  if (n.failed())
    return;
  int64_t free = -1, count = 1;
  Shape shape = *target;
  if (int64_t(shape.size()) > kMaxRank)
    return (void)n.fail("the target has " + Twine(shape.size()) + " dimensions");
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !allowZero) {
      if (int64_t(d) >= x.rank())
        return (void)n.fail("the target " + shapeText(shape) + " copies a dimension that " + shapeText(x.shape) +
                            " does not have");
      shape[d] = x.shape[d];
    }
    if (shape[d] == -1 && free < 0)
      free = int64_t(d);
    else if (shape[d] < 0)
      return (void)n.fail("the target shape " + shapeText(*target) + " has two unknown or negative extents");
  }
  if (free >= 0) {
    shape[free] = 1;
    count = elementCount(shape).value_or(0);
    if (count == 0 || x.size() % count != 0)
      return (void)n.fail("cannot reshape " + shapeText(x.shape) + " to " + shapeText(*target));
    shape[free] = x.size() / count;
  }
  n.out(0, n.b.reshape(x, shape));
}

static void flatten(Node &n) {
  Val x = n.in(0);
  int64_t axis = n.attrInt("axis", 1);
  if (!x)
    return;
  if (axis < -x.rank() || axis > x.rank())
    return (void)n.fail("axis " + Twine(axis) + " is out of range for " + Twine(x.rank()) + " dimensions");
  if (axis < 0)
    axis += x.rank();
  Shape shape{1, 1};
  for (int64_t d = 0; d < x.rank(); ++d)
    shape[d < axis ? 0 : 1] *= x.shape[d];
  n.out(0, n.b.reshape(x, shape));
}

static void squeeze(Node &n) {
  Val x = n.in(0);
  auto given = n.axesAttrOrInput("axes", 12, 1);
  if (n.failed())
    return;
  Shape dims, shape;
  if (given)
    dims = n.axes(*given, x.rank());
  for (int64_t d = 0; d < x.rank() && !n.failed(); ++d) {
    bool drop = given ? llvm::is_contained(dims, d) : x.shape[d] == 1;
    if (drop && x.shape[d] != 1)
      return (void)n.fail("dimension " + Twine(d) + " of " + shapeText(x.shape) + " is not 1");
    if (!drop)
      shape.push_back(x.shape[d]);
  }
  if (!n.failed())
    n.out(0, n.b.reshape(x, shape));
}

static void unsqueeze(Node &n) {
  Val x = n.in(0);
  auto given = n.axesAttrOrInput("axes", 12, 1);
  if (!given && !n.failed())
    n.fail("axes are missing");
  if (n.failed())
    return;
  int64_t rank = x.rank() + int64_t(given->size());
  Shape dims = n.axes(*given, rank), shape;
  if (n.failed() || rank > kMaxRank)
    return (void)n.fail("too many dimensions");
  for (int64_t d = 0, from = 0; d < rank; ++d)
    shape.push_back(llvm::is_contained(dims, d) ? 1 : x.shape[from++]);
  n.out(0, n.b.reshape(x, shape));
}

static void transpose(Node &n) {
  Val x = n.in(0);
  Shape perm;
  for (int64_t d = x.rank() - 1; d >= 0; --d)
    perm.push_back(d);
  perm = n.attrInts("perm").value_or(perm);
  n.out(0, n.b.transpose(x, perm));
}

static void expand(Node &n) {
  Val x = n.in(0);
  n.in(1);
  auto target = n.knownInts(1, "shape");
  if (n.failed())
    return;
  auto shape = graph::broadcastShapes(x.shape, *target);
  if (!shape || shape->size() > kMaxRank || !elementCount(*shape))
    return (void)n.fail("cannot expand " + shapeText(x.shape) + " to " + shapeText(*target));
  n.out(0, n.b.broadcast(x, *shape));
}

/// [a, b] tiled by [p, q]: reshape to [1, a, 1, b], broadcast to [p, a, q, b], reshape to [p*a,
/// q*b].
static void tile(Node &n) {
  Val x = n.in(0);
  n.in(1);
  auto repeats = n.knownInts(1, "repeats");
  if (n.failed())
    return;
  if (int64_t(repeats->size()) != x.rank())
    return (void)n.fail("repeats needs one number for each of the " + Twine(x.rank()) + " dimensions");
  Shape split, stretched, merged;
  for (int64_t d = 0; d < x.rank(); ++d) {
    int64_t times = (*repeats)[d];
    if (times < 0)
      return (void)n.fail("repeats must not be negative");
    if (times > (int64_t(1) << 40) / std::max<int64_t>(1, x.shape[d]))
      return (void)n.fail("repeats has " + Twine(times) + ", which makes the result of " + shapeText(x.shape) +
                          " too large");
    if (times != 1) {
      split.push_back(1);
      stretched.push_back(times);
    }
    split.push_back(x.shape[d]);
    stretched.push_back(x.shape[d]);
    merged.push_back(x.shape[d] * times);
  }
  if (!elementCount(merged))
    return (void)n.fail("the result's shape " + shapeText(merged) + " is too large");
  n.out(0, n.b.reshape(n.b.broadcast(n.b.reshape(x, split, "split"), stretched), merged, "merge"));
}

static void concat(Node &n) {
  Val first = n.in(0);
  if (!n.hasAttr("axis"))
    n.fail("the attribute axis is missing");
  int64_t axis = n.axis(n.attrInt("axis", 0), first.rank());
  for (int i = 0; i < n.numInputs(); ++i)
    n.in(i); // none may be missing
  if (!n.failed())
    n.out(0, n.b.concat(n.inputs(), axis));
}

static void split(Node &n) {
  Val x = n.in(0);
  int64_t axis = n.axis(n.attrInt("axis", 0), x.rank()), parts = n.proto.output_size();
  auto sizes = n.axesAttrOrInput("split", 12, 1);
  if (n.opset >= 18 && n.attrInt("num_outputs", parts) != parts)
    n.fail("num_outputs differs from the number of outputs");
  if (n.failed() || parts == 0)
    return;
  int64_t extent = x.shape[axis];
  if (!sizes) {
    int64_t each = (extent + parts - 1) / parts;
    if (n.opset < 18 && each * parts != extent)
      return (void)n.fail("cannot split the extent " + Twine(extent) + " into " + Twine(parts) + " equal parts");
    sizes = Shape(parts, each);
    sizes->back() = extent - each * (parts - 1);
  }
  int64_t total = 0;
  for (int64_t size : *sizes) {
    if (size < 0 || size > extent)
      return (void)n.fail("a part has the extent " + Twine(size));
    total += size;
  }
  if (int64_t(sizes->size()) != parts || total != extent)
    return (void)n.fail("the " + Twine(sizes->size()) + " parts of " + Twine(total) + " do not make up the extent " +
                        Twine(extent) + " for " + Twine(parts) + " outputs");
  Shape starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1);
  for (int64_t i = 0; i < parts; ++i) {
    limits[axis] = starts[axis] + (*sizes)[i];
    if (n.wanted(i))
      n.out(i, n.b.slice(x, starts, limits, strides, i == 0 ? "" : std::to_string(i)));
    starts[axis] = limits[axis];
  }
}

//===----------------------------------------------------------------------------------------------===//
// Slice and pad
//===----------------------------------------------------------------------------------------------===//

static void slice(Node &n) {
  Val x = n.in(0);
  std::optional<Shape> starts, ends, axes, steps;
  if (n.opset < 10) {
    starts = n.attrInts("starts");
    ends = n.attrInts("ends");
    axes = n.attrInts("axes");
  } else {
    starts = n.knownInts(1, "starts");
    ends = n.knownInts(2, "ends");
    axes = n.knownInts(3, "axes");
    steps = n.knownInts(4, "steps");
  }
  if (n.failed())
    return;
  if (!starts || !ends)
    return (void)n.fail("starts or ends are missing");
  if (!axes) {
    axes = Shape();
    for (size_t i = 0; i < starts->size(); ++i)
      axes->push_back(int64_t(i));
  }
  if (!steps)
    steps = Shape(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size())
    return (void)n.fail("starts, ends, axes and steps differ in length");
  Shape from(x.rank(), 0), limits = x.shape, strides(x.rank(), 1);
  std::set<int64_t> seen;
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t d = n.axis((*axes)[i], x.rank());
    if (n.failed())
      return;
    if (!seen.insert(d).second)
      return (void)n.fail("an axis is given twice");
    int64_t extent = x.shape[d], start = (*starts)[i], end = (*ends)[i], step = (*steps)[i];
    if (step == 0)
      return (void)n.fail("a step is 0");
    step = std::clamp(step, -(extent + 1), extent + 1);
    if (start < 0)
      start += extent;
    if (end < 0)
      end += extent;
    if (step > 0) {
      from[d] = std::clamp<int64_t>(start, 0, extent);
      limits[d] = std::max(from[d], std::clamp<int64_t>(end, 0, extent));
      strides[d] = step;
      continue;
    }
    if (extent == 0)
      continue;
    // Backward: take the indices one by one; `end` is exclusive and may be -1.
    start = std::clamp<int64_t>(start, 0, extent - 1);
    end = std::clamp<int64_t>(end, -1, extent - 1);
    Shape indices;
    for (int64_t at = start; at > end; at += step)
      indices.push_back(at);
    x = n.b.gather(x, n.b.knownInts(indices), d, "reverse" + std::to_string(d));
    if (!x)
      return;
    limits[d] = x.shape[d];
  }
  n.out(0, n.b.slice(x, from, limits, strides));
}

/// The source index of element i of a padded dimension, where i = 0 is the first element that is not padding.
static int64_t padSource(llvm::StringRef mode, int64_t i, int64_t extent) {
  if (mode == "edge")
    return std::clamp<int64_t>(i, 0, extent - 1);
  if (mode == "wrap")
    return ((i % extent) + extent) % extent;
  int64_t period = std::max<int64_t>(1, 2 * (extent - 1)), at = ((i % period) + period) % period;
  return at < extent ? at : period - at;
}

/// Pads with elements of x, by one gather with known indices per padded dimension.
static Val padFromInside(Node &n, Val x, const Shape &lo, const Shape &hi, llvm::StringRef mode) {
  for (int64_t d = 0; x && d < x.rank(); ++d) {
    if (lo[d] == 0 && hi[d] == 0)
      continue;
    int64_t extent = x.shape[d];
    if (extent == 0 || lo[d] > (1 << 20) || hi[d] > (1 << 20) || extent > (1 << 20))
      return n.fail("the padding of dimension " + Twine(d) + " is too large or pads nothing");
    Shape indices;
    for (int64_t i = -lo[d]; i < extent + hi[d]; ++i)
      indices.push_back(padSource(mode, i, extent));
    x = n.b.gather(x, n.b.knownInts(indices), d, "dim" + std::to_string(d));
  }
  return x;
}

static void pad(Node &n) {
  Val x = n.in(0);
  std::string mode = n.attrString("mode", "constant");
  std::optional<Shape> pads, axes;
  Val value;
  double fill = 0;
  if (n.opset < 11) {
    pads = n.attrInts("pads");
    fill = n.attrFloat("value", 0);
  } else {
    pads = n.knownInts(1, "pads");
    if (n.has(2))
      fill = n.knownFloat(2, "constant_value").value_or(0);
    axes = n.knownInts(3, "axes");
  }
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    n.fail("mode='" + mode + "' is unknown");
  if (!pads)
    n.fail("pads are missing");
  if (n.failed())
    return;
  if (!axes) {
    axes = Shape();
    for (int64_t d = 0; d < x.rank(); ++d)
      axes->push_back(d);
  }
  size_t count = axes->size();
  if (pads->size() != 2 * count)
    return (void)n.fail("pads needs two numbers per dimension");
  Shape lo(x.rank(), 0), hi(x.rank(), 0), starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1);
  for (size_t i = 0; i < count; ++i) {
    int64_t d = n.axis((*axes)[i], x.rank()), before = (*pads)[i], after = (*pads)[count + i];
    if (n.failed())
      return;
    int64_t extent = x.shape[d];
    if (before < -extent || after < -extent || std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) < -extent)
      return (void)n.fail("negative padding removes more than there is");
    starts[d] = std::max<int64_t>(0, -before);
    limits[d] = extent - std::max<int64_t>(0, -after);
    lo[d] = std::max<int64_t>(0, before);
    hi[d] = std::max<int64_t>(0, after);
  }
  bool pads0 = llvm::all_of(lo, [](int64_t v) { return v == 0; }) && llvm::all_of(hi, [](int64_t v) { return v == 0; });
  x = n.b.slice(x, starts, limits, strides, pads0 ? "" : "crop");
  n.out(0, mode == "constant" ? n.b.pad(x, lo, hi, fill) : padFromInside(n, x, lo, hi, mode));
}

/// Every dimension is cut or filled up with zeros around its middle; of an odd number, one more at the end.
static void centerCropPad(Node &n) {
  Val x = n.in(0);
  n.in(1);
  auto shape = n.knownInts(1, "shape"), axes = n.attrInts("axes");
  if (n.failed())
    return;
  Shape lo(x.rank(), 0), hi(x.rank(), 0), starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1);
  if (shape->size() != (axes ? axes->size() : size_t(x.rank())))
    return (void)n.fail("shape needs one number for each axis");
  bool pads = false;
  for (size_t i = 0; i < shape->size(); ++i) {
    int64_t d = axes ? n.axis((*axes)[i], x.rank()) : int64_t(i), to = (*shape)[i];
    if (n.failed())
      return;
    int64_t from = x.shape[d], more = to - from;
    if (to < 0 || to > (int64_t(1) << 40))
      return (void)n.fail("shape has " + Twine(to) + ", which is not possible");
    if (more <= 0) {
      starts[d] = -more / 2;
      limits[d] = starts[d] + to;
      continue;
    }
    lo[d] = more / 2;
    hi[d] = more - more / 2;
    pads = true;
  }
  Shape result = limits;
  for (int64_t d = 0; d < x.rank(); ++d)
    result[d] += lo[d] + hi[d] - starts[d];
  if (!elementCount(result))
    return (void)n.fail("the result's shape " + shapeText(result) + " is too large");
  x = n.b.slice(x, starts, limits, strides, pads ? "crop" : "");
  n.out(0, pads ? n.b.pad(x, lo, hi, 0) : x);
}

//===----------------------------------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------------------------------===//

static void trilu(Node &n) {
  Val x = n.in(0);
  bool upper = n.attrInt("upper", 1) != 0;
  auto k = n.knownInts(1, "k");
  if (n.failed())
    return;
  if (x.rank() < 2 || (k && k->size() != 1))
    return (void)n.fail("the input must have two dimensions or more and k must be one number");
  int64_t rows = x.shape[x.rank() - 2], columns = x.shape[x.rank() - 1];
  int64_t diagonal = k ? std::clamp<int64_t>((*k)[0], -rows, columns) : 0;
  Val row = n.b.iota(DType::I64, {rows, columns}, 0, "rows");
  Val column = n.b.iota(DType::I64, {rows, columns}, 1, "columns");
  Val edge = n.b.add(row, n.b.scalarLike(row, double(diagonal)), "edge");
  Val keep = upper ? n.b.binary<graph::LeOp>(edge, column, "keep") : n.b.binary<graph::LeOp>(column, edge, "keep");
  n.out(0, n.b.select(keep, x, n.b.scalarLike(x, 0)));
}

static void depthToSpace(Node &n) {
  Val x = n.in(0);
  int64_t block = n.attrInt("blocksize", 0);
  std::string mode = n.attrString("mode", "DCR");
  if (!x || x.rank() != 4 || block < 1 || block > 1024 || x.shape[1] % (block * block) != 0)
    return (void)n.fail("blocksize does not fit the input " + shapeText(x.shape));
  int64_t c = x.shape[1] / (block * block), h = x.shape[2], w = x.shape[3];
  bool dcr = mode == "DCR";
  if (!dcr && mode != "CRD")
    return (void)n.fail("mode='" + mode + "' is unknown");
  Val y = dcr ? n.b.transpose(n.b.reshape(x, {x.shape[0], block, block, c, h, w}, "split"), {0, 3, 4, 1, 5, 2})
              : n.b.transpose(n.b.reshape(x, {x.shape[0], c, block, block, h, w}, "split"), {0, 1, 4, 2, 5, 3});
  n.out(0, n.b.reshape(y, {x.shape[0], c, h * block, w * block}, "merge"));
}

static void spaceToDepth(Node &n) {
  Val x = n.in(0);
  int64_t block = n.attrInt("blocksize", 0);
  std::string mode = n.attrString("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return (void)n.fail("mode='" + mode + "' is unknown");
  if (!x || x.rank() != 4 || block < 1 || x.shape[2] % block != 0 || x.shape[3] % block != 0)
    return (void)n.fail("blocksize does not fit the input " + shapeText(x.shape));
  int64_t c = x.shape[1], h = x.shape[2] / block, w = x.shape[3] / block;
  Val y = n.b.transpose(n.b.reshape(x, {x.shape[0], c, h, block, w, block}, "split"),
                        mode == "DCR" ? Shape{0, 3, 5, 1, 2, 4} : Shape{0, 1, 3, 5, 2, 4});
  n.out(0, n.b.reshape(y, {x.shape[0], c * block * block, h, w}, "merge"));
}

llvm::ArrayRef<OpRow> tessera::compiler::movementOps() {
  static const OpRow rows[] = {
      {"CenterCropPad", 18, kNewestOpset, centerCropPad, ".t", "shape known at import"},
      {"Concat", 7, kNewestOpset, concat, ".", ""},
      {"DepthToSpace", 7, kNewestOpset, depthToSpace, ".", ""},
      {"Expand", 8, kNewestOpset, expand, ">t", "shape known at import"},
      {"Flatten", 7, kNewestOpset, flatten, ">", ""},
      {"Pad", 7, kNewestOpset, pad, ".tct", "pads and value known at import"},
      {"Reshape", 7, kNewestOpset, reshape, ">t", "shape known at import"},
      {"Slice", 7, kNewestOpset, slice, "/t", "starts, ends, axes, steps known at import"},
      {"SpaceToDepth", 7, kNewestOpset, spaceToDepth, ".", ""},
      {"Split", 7, kNewestOpset, split, ">t", "split known at import"},
      {"Squeeze", 7, kNewestOpset, squeeze, ">t", "axes known at import"},
      {"Tile", 7, kNewestOpset, tile, ">t", "repeats known at import"},
      {"Transpose", 1, kNewestOpset, transpose, ">", ""},
      {"Trilu", 14, kNewestOpset, trilu, ">t", "k known at import"},
      {"Unsqueeze", 7, kNewestOpset, unsqueeze, ">t", "axes known at import"},
  };
  return rows;
}
