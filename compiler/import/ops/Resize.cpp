//===- Resize.cpp - interpolation as gathers and matrix products
//----------------------------------===//
//
// Linear interpolation along one dimension is a product with a constant matrix M [out, in] of at
// most two non-zeros per row; nearest neighbour is a gather with constant indices (a broadcast,
// where every element is simply repeated). Dimensions are treated one after the other.
//
// Coordinates: ONNX, Resize, coordinate_transformation_mode.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <cmath>

using namespace tessera;
using namespace tessera::compiler;

namespace {
struct Axis {
  int64_t in, out;
  double scale;
};
} // namespace

/// The input coordinate of output element i; nullopt: unknown mode.
static std::optional<double> coordinate(llvm::StringRef mode, const Axis &axis, int64_t i) {
  auto x = static_cast<double>(i);
  if (mode == "half_pixel")
    return (x + 0.5) / axis.scale - 0.5;
  if (mode == "pytorch_half_pixel")
    return axis.out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0.0;
  if (mode == "align_corners")
    return axis.out > 1 ? x * static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1)
                        : 0.0;
  if (mode == "asymmetric")
    return x / axis.scale;
  return std::nullopt;
}

static std::optional<int64_t> nearestIndex(llvm::StringRef mode, const Axis &axis, double x) {
  double r;
  if (mode == "round_prefer_floor")
    r = std::ceil(x - 0.5);
  else if (mode == "round_prefer_ceil")
    r = std::floor(x + 0.5);
  else if (mode == "floor")
    r = std::floor(x);
  else if (mode == "ceil")
    r = std::ceil(x);
  else
    return std::nullopt;
  return static_cast<int64_t>(std::clamp(r, 0.0, static_cast<double>(axis.in - 1)));
}

static Val nearest(Node &n, const Val &x, int64_t dim, llvm::ArrayRef<int64_t> indices,
                   const std::string &suffix) {
  int64_t in = x.shape[dim], out = static_cast<int64_t>(indices.size());
  bool repeats = out % in == 0;
  for (int64_t i = 0; i < out && repeats; ++i)
    repeats = indices[i] == i / (out / in);
  if (!repeats)
    return n.b.gather(x, n.b.knownInts(indices), dim, suffix);
  Shape split = x.shape, wide, merged = x.shape;
  split.insert(split.begin() + dim + 1, 1);
  wide = split;
  wide[dim + 1] = out / in;
  merged[dim] = out;
  return n.b.reshape(n.b.broadcast(n.b.reshape(x, split, suffix + "split"), wide, suffix), merged,
                     suffix + "merge");
}

static Val linear(Node &n, const Val &x, int64_t dim, const Axis &axis, llvm::StringRef mode,
                  const std::string &suffix) {
  std::vector<double> matrix(axis.in * axis.out, 0.0);
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = std::clamp(*coordinate(mode, axis, i), 0.0, static_cast<double>(axis.in - 1));
    auto low = static_cast<int64_t>(std::floor(at));
    int64_t high = std::min(low + 1, axis.in - 1);
    double weight = at - static_cast<double>(low);
    matrix[i * axis.in + low] += 1 - weight;
    matrix[i * axis.in + high] += weight;
  }
  Val m = n.b.known(Constant::floats(x.type, {axis.out, axis.in}, std::move(matrix)),
                    n.proto.output(0) + "/" + suffix);
  // The last dimension multiplies from the right, the one before from the left; others go there
  // first.
  if (dim == x.rank() - 1)
    return n.b.matmul(x, m, false, true, suffix);
  Shape perm;
  for (int64_t d = 0; d < x.rank(); ++d)
    perm.push_back(d);
  std::swap(perm[dim], perm[x.rank() - 2]);
  Val y = n.b.matmul(m, n.b.transpose(x, perm, suffix + "to_back"), false, false, suffix);
  return n.b.transpose(y, perm, suffix + "from_back");
}

static void resize(Node &n) {
  Val x = n.in(0);
  bool upsample = n.proto.op_type() == "Upsample", early = upsample || n.opset < 11;
  std::string mode = n.attrString("mode", "nearest");
  std::string coordinates =
      n.attrString("coordinate_transformation_mode", early ? "asymmetric" : "half_pixel");
  std::string rounding = n.attrString("nearest_mode", early ? "floor" : "round_prefer_floor");
  n.ignoreAttr("cubic_coeff_a"); // of mode=cubic
  n.ignoreAttr("extrapolation_value");
  n.ignoreAttr("exclude_outside");
  if (n.attrInt("antialias", 0) != 0 ||
      n.attrString("keep_aspect_ratio_policy", "stretch") != "stretch")
    n.fail("antialias and keep_aspect_ratio_policy are not supported");
  auto axes = n.attrInts("axes");
  if (n.failed())
    return;
  if (!isFloat(x.type) || (mode != "nearest" && mode != "linear" && mode != "bilinear"))
    return (void)n.fail("mode='" + mode + "' of " + dtypeName(x.type) +
                        " is not supported: use nearest or linear of floating point");
  if (!coordinate(coordinates, {1, 1, 1}, 0))
    return (void)n.fail("coordinate_transformation_mode='" + coordinates + "' is not supported");

  Shape dims;
  for (int64_t d = 0; d < x.rank(); ++d)
    dims.push_back(d);
  if (axes) {
    dims = n.axes(*axes, x.rank());
    if (n.failed() || dims != *axes)
      return (void)n.fail("axes must be ascending and not negative");
  }
  int scalesAt = early ? 1 : 2;
  std::vector<double> scales;
  std::optional<Shape> sizes;
  if (upsample && n.opset < 9) {
    if (auto given = n.attrFloats("scales"))
      scales.assign(given->begin(), given->end());
  } else if (n.has(scalesAt) && n.in(scalesAt).size() > 0) {
    Val v = n.in(scalesAt);
    if (!v.known || !isFloat(v.type) || v.size() > kMaxRank)
      return (void)n.fail("scales must be known at import");
    for (int64_t i = 0; i < v.size(); ++i)
      scales.push_back(v.known->floatAt(i));
  } else if (n.has(3)) {
    sizes = n.knownInts(3, "sizes");
  }
  if (n.failed())
    return;
  if (scales.size() != dims.size() && (!sizes || sizes->size() != dims.size()))
    return (void)n.fail("scales or sizes are needed for each of the " + llvm::Twine(dims.size()) +
                        " dimensions");

  // The last dimension that changes carries the node's name.
  std::map<int64_t, Axis> work;
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis axis{x.shape[dims[i]], 0, 1};
    // The scale is a float32, and so is the product: 5 * 1.8f is 9, though 1.8f is less than 1.8.
    double out = sizes ? static_cast<double>((*sizes)[i])
                       : std::floor(static_cast<float>(axis.in) * static_cast<float>(scales[i]));
    if (!(out >= 1 && out <= 1 << 20) || axis.in > 1 << 20)
      return (void)n.fail("dimension " + llvm::Twine(dims[i]) + " of " + shapeText(x.shape) +
                          " would get an extent that is not possible");
    axis.out = static_cast<int64_t>(out);
    // PyTorch divides by the extent that results, ONNX's own tests by the product with the scale.
    if (!sizes && mode != "nearest" && coordinates == "align_corners" &&
        out != static_cast<float>(axis.in) * static_cast<float>(scales[i]))
      return (void)n.fail("align_corners with a scale that gives no whole extent for dimension " +
                          llvm::Twine(dims[i]) + " has no agreed meaning: give sizes");
    axis.scale = sizes ? out / static_cast<double>(axis.in) : scales[i];
    if (axis.out != axis.in || axis.scale != 1)
      work[dims[i]] = axis;
  }
  Val y = x;
  for (auto &[dim, axis] : work) {
    std::string suffix = dim == work.rbegin()->first ? "" : "dim" + std::to_string(dim);
    if (!y)
      return;
    if (mode != "nearest") {
      if (x.rank() < 2 || !n.b.mayFold(axis.in * axis.out))
        return (void)n.fail("linear interpolation of the extent " + llvm::Twine(axis.in) +
                            " is not supported");
      y = linear(n, y, dim, axis, coordinates, suffix);
      continue;
    }
    Shape indices;
    for (int64_t i = 0; i < axis.out; ++i) {
      auto at = nearestIndex(rounding, axis, *coordinate(coordinates, axis, i));
      if (!at)
        return (void)n.fail("nearest_mode='" + rounding + "' is unknown");
      indices.push_back(*at);
    }
    y = nearest(n, y, dim, indices, suffix);
  }
  n.out(0, y);
}

llvm::ArrayRef<OpRow> tessera::compiler::resizeOps() {
  static const OpRow rows[] = {
      {"Resize", 10, 21, resize, ".t",
       "nearest and linear; half_pixel, pytorch_half_pixel, align_corners, asymmetric; scales or "
       "sizes known at "
       "import"},
      {"Upsample", 7, 9, resize, ".t", "nearest and linear; scales known at import"},
  };
  return rows;
}
