//===- Resize.cpp - interpolation as gathers and matrix products ------------------------------===//
//
// Linear and cubic interpolation along one dimension is a product with a constant matrix M [out, in]
// of at most four non-zeros per row (more with antialias); nearest neighbour is a gather with constant indices
// (a broadcast, where every element is simply repeated). Dimensions are treated one after the other.
//
// Coordinates: ONNX, Resize, coordinate_transformation_mode. Of align_corners there are two readings where the scale
// gives no whole extent: 4 times 0.6 is 2.4, and the result has 2 elements. ONNX's text, PyTorch and ONNX Runtime put
// the last of 2 on the last corner; ONNX's reference implementation puts it where the last of 2.4 would be. A file is
// read by the text, in the function to the letter (ImportOptions::literal) by the reference implementation.
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
  double length;             // the extent of the result that align_corners divides by
  double start = 0, end = 1; // of the region of interest, of tf_crop_and_resize
};

/// The node's attributes that define the weights; ONNX's Resize documents them.
struct Interpolation {
  std::string mode, coordinates, rounding;
  double cubic = -0.75;
  bool excludeOutside = false, antialias = false;
  double extrapolation = 0;
};
} // namespace

/// The input coordinate of output element i; nullopt: unknown mode.
static std::optional<double> coordinate(llvm::StringRef mode, const Axis &axis, int64_t i) {
  auto x = double(i), last = double(axis.in - 1);
  if (mode == "half_pixel")
    return (x + 0.5) / axis.scale - 0.5;
  if (mode == "pytorch_half_pixel")
    return axis.out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0.0;
  if (mode == "tf_half_pixel_for_nn")
    return (x + 0.5) / axis.scale;
  if (mode == "align_corners")
    return axis.length != 1 ? x * last / (axis.length - 1) : 0.0;
  if (mode == "half_pixel_symmetric") { // the middle of the input is in the middle of the result
    double beyond = double(axis.out) / (axis.scale * double(axis.in));
    return double(axis.in) / 2 * (1 - beyond) + (x + 0.5) / axis.scale - 0.5;
  }
  if (mode == "asymmetric")
    return x / axis.scale;
  if (mode == "tf_crop_and_resize")
    return axis.out > 1 ? axis.start * last + x * (axis.end - axis.start) * last / double(axis.out - 1)
                        : 0.5 * (axis.start + axis.end) * last;
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
  return int64_t(std::clamp(r, 0.0, double(axis.in - 1)));
}

/// The weight of an element at a distance: a hat, or Keys' cubic convolution.
static double kernel(const Interpolation &how, double distance) {
  double d = std::abs(distance), a = how.cubic;
  if (how.mode != "cubic")
    return std::max(1 - d, 0.0);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/// The weights of the elements from `first` on for the coordinate x: {first, weights}. Where antialias reduces, the
/// kernel is as many times wider as elements become one, and its weights sum to 1.
static std::pair<int64_t, std::vector<double>> taps(const Interpolation &how, const Axis &axis, double x) {
  double narrow = how.antialias ? std::min(axis.scale, 1.0) : 1, radius = (how.mode == "cubic" ? 2 : 1) / narrow;
  auto low = int64_t(std::floor(x)), before = int64_t(std::floor(-radius)) + 1;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = before; i < 2 - before; ++i)
    sum += weights.emplace_back(kernel(how, narrow * (double(low + i) - x)));
  if (how.antialias)
    for (double &weight : weights)
      weight /= sum;
  return {low + before, std::move(weights)};
}

/// The matrix M [out, in]. An element beyond the border counts as the border's element, or is left out
/// (exclude_outside).
static std::vector<double> weightMatrix(const Interpolation &how, const Axis &axis) {
  std::vector<double> matrix(axis.in * axis.out, 0.0);
  for (int64_t i = 0; i < axis.out; ++i) {
    // The clamp bounds the coordinate for any scale. Beyond these limits the weights no longer change.
    double at = std::clamp(*coordinate(how.coordinates, axis, i), -4.0, double(axis.in) + 4.0);
    auto [first, weights] = taps(how, axis, at);
    double sum = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      int64_t j = first + int64_t(k);
      if (how.excludeOutside && (j < 0 || j >= axis.in))
        continue;
      matrix[i * axis.in + std::clamp<int64_t>(j, 0, axis.in - 1)] += weights[k];
      sum += weights[k];
    }
    if (how.excludeOutside && sum != 0)
      for (int64_t j = 0; j < axis.in; ++j)
        matrix[i * axis.in + j] /= sum;
  }
  return matrix;
}

static Val nearest(Node &n, const Val &x, int64_t dim, llvm::ArrayRef<int64_t> indices, const std::string &suffix) {
  int64_t in = x.shape[dim], out = int64_t(indices.size());
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
  return n.b.reshape(n.b.broadcast(n.b.reshape(x, split, suffix + "split"), wide, suffix), merged, suffix + "merge");
}

static Val weighted(Node &n, const Val &x, int64_t dim, const Axis &axis, const Interpolation &how,
                    const std::string &suffix) {
  Val m = n.b.known(Constant::floats(x.type, {axis.out, axis.in}, weightMatrix(how, axis)),
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

/// Replaces elements whose coordinate lies outside x by the extrapolation value. Only tf_crop_and_resize has such.
static Val extrapolated(Node &n, const Val &y, int64_t dim, const Axis &axis, const Interpolation &how,
                        const std::string &suffix) {
  std::vector<int64_t> inside(axis.out);
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = *coordinate(how.coordinates, axis, i);
    inside[i] = at >= 0 && at <= double(axis.in - 1);
  }
  if (!y || llvm::all_of(inside, [](int64_t v) { return v != 0; }))
    return y;
  Shape line(y.rank(), 1);
  line[dim] = axis.out;
  Val mask = n.b.known(Constant::ints(DType::I1, line, std::move(inside)));
  return n.b.select(mask, y, n.b.scalarLike(y, how.extrapolation), suffix + "extrapolated");
}

static void resize(Node &n) {
  Val x = n.in(0);
  bool upsample = n.proto.op_type() == "Upsample", early = upsample || n.opset < 11;
  Interpolation how;
  how.mode = n.attrString("mode", "nearest");
  if (how.mode == "bilinear")
    how.mode = "linear";
  how.coordinates = n.attrString("coordinate_transformation_mode", early ? "asymmetric" : "half_pixel");
  how.rounding = n.attrString("nearest_mode", early ? "floor" : "round_prefer_floor");
  how.cubic = n.attrFloat("cubic_coeff_a", -0.75);
  how.extrapolation = n.attrFloat("extrapolation_value", 0);
  how.excludeOutside = n.attrInt("exclude_outside", 0) != 0;
  how.antialias = n.attrInt("antialias", 0) != 0;
  std::string policy = n.attrString("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    n.fail("keep_aspect_ratio_policy='" + policy + "' is unknown");
  auto axes = n.attrInts("axes");
  if (n.failed())
    return;
  if (how.mode != "nearest" && ((how.mode != "linear" && how.mode != "cubic") || !isFloat(x.type)))
    return (void)n.fail("mode='" + how.mode + "' of " + dtypeName(x.type) +
                        " is not supported: use nearest, or linear or cubic of floating point");
  if (how.mode == "nearest" && how.antialias)
    return (void)n.fail("antialias is for the modes linear and cubic, not for nearest");
  if (!coordinate(how.coordinates, {1, 1, 1, 1}, 0))
    return (void)n.fail("coordinate_transformation_mode='" + how.coordinates + "' is not supported");
  bool crops = how.coordinates == "tf_crop_and_resize";
  Val roi = crops ? n.in(1) : Val();
  if (crops && (!roi || !roi.known || !isFloat(roi.type)))
    return (void)n.fail("roi must be known at import");

  Shape dims;
  if (axes)
    for (int64_t d : *axes)
      dims.push_back(n.axis(d, x.rank()));
  else
    for (int64_t d = 0; d < x.rank(); ++d)
      dims.push_back(d);
  if (n.failed())
    return;
  if (std::set<int64_t>(dims.begin(), dims.end()).size() != dims.size())
    return (void)n.fail("axes name a dimension twice");
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
    return (void)n.fail("scales or sizes are needed for each of the " + llvm::Twine(dims.size()) + " dimensions");

  double common = 0; // the scale of all dimensions that keeps the aspect ratio; 0: each has its own
  if (sizes && policy != "stretch")
    for (size_t i = 0; i < dims.size(); ++i) {
      double own = double((*sizes)[i]) / double(std::max<int64_t>(x.shape[dims[i]], 1));
      common = i == 0 ? own : policy == "not_larger" ? std::min(common, own) : std::max(common, own);
    }

  // The last dimension that changes carries the node's name.
  std::map<int64_t, Axis> work;
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis axis{x.shape[dims[i]], 0, 1, 1};
    // The scale is a float32, and so is the product: 5 * 1.8f is 9, though 1.8f is less than 1.8.
    double product = common != 0 ? common * double(axis.in)
                     : sizes     ? double((*sizes)[i])
                                 : double(float(axis.in) * float(scales[i]));
    double out = std::floor(common != 0 ? product + 0.5 : product);
    if (!(out >= 1 && out <= 1 << 20) || axis.in > 1 << 20)
      return (void)n.fail("dimension " + llvm::Twine(dims[i]) + " of " + shapeText(x.shape) +
                          " would get an extent that is not possible");
    axis.out = int64_t(out);
    axis.length = n.function.literal() ? product : out;
    axis.scale = common != 0 ? common : sizes ? out / double(axis.in) : scales[i];
    if (crops) {
      if (roi.size() != int64_t(2 * dims.size()))
        return (void)n.fail("roi needs a start and an end for each dimension");
      axis.start = roi.known->floatAt(int64_t(i));
      axis.end = roi.known->floatAt(int64_t(i + dims.size()));
      if (!(std::abs(axis.start) <= 1e6 && std::abs(axis.end) <= 1e6))
        return (void)n.fail("roi is out of range");
    }
    bool whole = !crops || (axis.start == 0 && axis.end == 1);
    if (axis.out != axis.in || axis.scale != 1 || !whole)
      work[dims[i]] = axis;
  }
  Val y = x;
  for (auto &[dim, axis] : work) {
    std::string suffix = dim == work.rbegin()->first ? "" : "dim" + std::to_string(dim);
    if (!y)
      return;
    if (how.mode != "nearest") {
      if (x.rank() < 2 || !n.b.mayFold(axis.in * axis.out))
        return (void)n.fail("interpolation of the extent " + llvm::Twine(axis.in) + " is not supported");
      y = weighted(n, y, dim, axis, how, suffix);
      if (crops)
        y = extrapolated(n, y, dim, axis, how, suffix);
      continue;
    }
    Shape indices;
    for (int64_t i = 0; i < axis.out; ++i) {
      auto at = nearestIndex(how.rounding, axis, *coordinate(how.coordinates, axis, i));
      if (!at)
        return (void)n.fail("nearest_mode='" + how.rounding + "' is unknown");
      indices.push_back(*at);
    }
    y = nearest(n, y, dim, indices, suffix);
    if (crops)
      y = extrapolated(n, y, dim, axis, how, suffix);
  }
  n.out(0, y);
}

llvm::ArrayRef<OpRow> tessera::compiler::resizeOps() {
  static const OpRow rows[] = {
      {"Resize", 10, kNewestOpset, resize, ".t",
       "linear and cubic of floating point; roi, scales or sizes known at import"},
      {"Upsample", 7, 9, resize, ".t", "nearest and linear; scales known at import"},
  };
  return rows;
}
