//===- Signal.cpp - Fourier transforms, signal windows, mel filters -------------------------------===//
//
// A Fourier transform is a product with a matrix of cosines and sines. A row or column of the matrix is one part of one
// number: its real part or, if numbers are complex, its real or imaginary part, as in the last dimension of the tensor.
// So a transform is sharded, differentiated and run like any product. That is fast enough, because the transforms of a
// network are short and many run at once.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <cmath>
#include <numbers>

using namespace tessera;
using namespace tessera::compiler;

/// Sum of coefficient[k] cos(2 pi k i / period): a signal window, known at
/// import.
static void window(Node &n, llvm::ArrayRef<double> coefficients) {
  n.in(0);
  auto size = n.knownInts(0, "size");
  bool periodic = n.attrInt("periodic", 1) != 0;
  int64_t to = n.attrInt("output_datatype", onnx::TensorProto::FLOAT);
  auto type = compiler::dtypeOf(int32_t(to));
  if (n.failed())
    return;
  if (size->size() != 1 || (*size)[0] < 1 || (*size)[0] > GraphBuilder::kMaxFolded || !type || !isFloat(*type))
    return (void)n.fail("size must be one positive number and output_datatype floating point");
  int64_t count = (*size)[0];
  if (!n.b.mayFold(count))
    return;
  double period = double(periodic ? count : std::max<int64_t>(1, count - 1));
  std::vector<double> values(count, 0);
  for (int64_t i = 0; i < count; ++i)
    for (size_t k = 0; k < coefficients.size(); ++k)
      values[i] += coefficients[k] * std::cos(2 * std::numbers::pi * double(k) * double(i) / period);
  n.out(0, n.b.known(Constant::floats(*type, {count}, std::move(values))));
}
static void hannWindow(Node &n) { window(n, {0.5, -0.5}); }
static void hammingWindow(Node &n) { window(n, {25.0 / 46, -21.0 / 46}); }
static void blackmanWindow(Node &n) { window(n, {0.42, -0.5, 0.08}); }

/// An input of one integer from 1 up, known at import; 0: failed.
static int64_t knownCount(Node &n, int i, llvm::StringRef what) {
  n.in(i);
  auto value = n.knownInts(i, what);
  if (n.failed())
    return 0;
  if (value->size() == 1 && (*value)[0] >= 1 && (*value)[0] <= GraphBuilder::kMaxFolded)
    return (*value)[0];
  n.fail(what + " (input " + llvm::Twine(i) + ") must be one number between 1 and " +
         llvm::Twine(GraphBuilder::kMaxFolded));
  return 0;
}

/// A matrix with one triangle per column, over the bins of a spectrum. The corners of the triangles have equal
/// distances on the mel scale.
static void melWeightMatrix(Node &n) {
  int64_t bands = knownCount(n, 0, "num_mel_bins"), length = knownCount(n, 1, "dft_length");
  int64_t rate = knownCount(n, 2, "sample_rate");
  n.in(3), n.in(4);
  auto low = n.knownFloat(3, "lower_edge_hertz"), high = n.knownFloat(4, "upper_edge_hertz");
  auto type = compiler::dtypeOf(int32_t(n.attrInt("output_datatype", onnx::TensorProto::FLOAT)));
  if (n.failed())
    return;
  if (!type)
    return (void)n.fail("the attribute output_datatype has a type that is not supported");
  if (!(0 <= *low && *low <= *high && *high <= 1e9))
    return (void)n.fail("0 <= lower_edge_hertz <= upper_edge_hertz <= 1e9 is needed");
  int64_t bins = length / 2 + 1;
  if (bands > GraphBuilder::kMaxFolded / bins || !n.b.mayFold(bins * bands))
    return (void)n.fail("the matrix " + shapeText({bins, bands}) + " has too many elements");

  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double step = (mel(*high) - mel(*low)) / double(bands + 2);
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < bands + 2; ++i) {
    double hertz = 700 * (std::pow(10, (double(i) * step + mel(*low)) / 2595) - 1);
    corners.push_back(int64_t(std::floor(double(length + 1) * hertz / double(rate))));
  }
  if (corners[bands] >= bins || corners[bands + 1] > bins)
    return (void)n.fail("upper_edge_hertz lies above the spectrum's last bin: "
                        "half of sample_rate is the most");
  std::vector<double> values(bins * bands, 0);
  for (int64_t i = 0; i < bands; ++i) {
    int64_t left = corners[i], center = corners[i + 1], right = corners[i + 2];
    for (int64_t bin = left; bin < center; ++bin)
      values[bin * bands + i] = double(bin - left) / double(center - left);
    values[center * bands + i] = 1;
    for (int64_t bin = center + 1; bin < right; ++bin)
      values[bin * bands + i] = double(right - bin) / double(right - center);
  }
  n.out(0, n.b.cast(n.b.known(Constant::floats(DType::F64, {bins, bands}, std::move(values))), *type));
}

/// A transform of `from` numbers into `to`: y[k] = sum over j of x[j] e^(-+ 2 pi i j k / length). Its matrix has the
/// shape [from * parts of x, to * parts of y].
struct Fourier {
  int64_t length, from, to;
  int64_t partsIn, partsOut; // 1: real numbers, 2: complex ones
  bool inverse = false;      // e^(+ ...), and divided by length
  bool mirrored = false;     // x is the first half of a spectrum whose other half
                             // is its conjugate
};

static Val fourierMatrix(Node &n, const Fourier &f, DType type) {
  Val j = n.b.iota(DType::I64, {f.from, 1, 1, 1}, 0, "j"), k = n.b.iota(DType::I64, {1, 1, f.to, 1}, 2, "k");
  Val in = n.b.iota(DType::I64, {1, f.partsIn, 1, 1}, 1), out = n.b.iota(DType::I64, {1, 1, 1, f.partsOut}, 3);
  auto number = [&](int64_t value) { return n.b.known(Constant::scalar(DType::I64, value)); };
  // A sine is a cosine shifted by a quarter turn, so every element is a cosine. Its angle is a whole number of steps,
  // of which 4 * length are a turn. Whole numbers keep large products of j and k exact.
  Val turns = n.b.binary<graph::ModOp>(n.b.mul(j, k, "jk"), number(f.length), "turns");
  Val quarters = n.b.mul(n.b.sub(out, in), number(f.inverse ? -f.length : f.length));
  Val steps = n.b.add(n.b.mul(turns, number(4), "steps"), quarters, "shifted");
  Val angle = n.b.scale(n.b.cast(steps, DType::F64, "steps_f64"), std::numbers::pi / 2 / double(f.length), "angle");
  Val matrix = n.b.unary<graph::CosOp>(angle, "cos");
  if (f.inverse)
    matrix = n.b.scale(matrix, 1 / double(f.length), "divided");
  if (f.mirrored) { // every number counts twice, except the first and the middle one
    std::vector<double> weights(f.from, 2);
    weights[0] = 1;
    if (f.length % 2 == 0 && f.from > f.length / 2)
      weights[f.length / 2] = 1;
    matrix =
        n.b.mul(matrix, n.b.known(Constant::floats(DType::F64, {f.from, 1, 1, 1}, std::move(weights))), "mirrored");
  }
  return n.b.reshape(n.b.cast(matrix, type, "narrow"), {f.from * f.partsIn, f.to * f.partsOut}, "matrix");
}

/// Transforms x [..., numbers, ..., parts] along `axis`.
static Val transform(Node &n, Val x, int64_t axis, const Fourier &f) {
  int64_t last = x.rank() - 1;
  if (f.length > GraphBuilder::kMaxFolded)
    return n.fail("a transform of length " + llvm::Twine(f.length) + " is too long");
  Shape limits = x.shape, order, back(x.rank(), 0);
  limits[axis] = f.from;
  x = n.b.slice(x, Shape(x.rank(), 0), limits, Shape(x.rank(), 1), "first");
  for (int64_t d = 0; d < last; ++d)
    if (d != axis)
      order.push_back(d);
  order.append({axis, last});
  for (auto [i, d] : llvm::enumerate(order))
    back[d] = int64_t(i);
  x = n.b.transpose(x, order, "axis_last");
  Shape rows(llvm::ArrayRef<int64_t>(x.shape).drop_back(2)), result = rows;
  if (rows.empty())
    rows.push_back(1);
  rows.push_back(f.from * f.partsIn);
  result.append({f.to, f.partsOut});
  Val y = n.b.matmul(n.b.reshape(x, rows, "rows"), fourierMatrix(n, f, x.type));
  return n.b.transpose(n.b.reshape(y, result, "parts"), back, "axis_back");
}

static void dft(Node &n) {
  Val x = n.floatIn(0);
  bool inverse = n.attrInt("inverse", 0) != 0, onesided = n.attrInt("onesided", 0) != 0;
  int64_t length = n.has(1) ? knownCount(n, 1, "dft_length") : 0;
  int64_t axis = n.opset < 20 ? n.attrInt("axis", 1) : -2;
  if (n.opset >= 20 && n.has(2)) {
    auto given = n.knownInts(2, "axis");
    if (!given || given->size() != 1)
      return (void)n.fail("axis (input 2) must be one number");
    axis = (*given)[0];
  }
  axis = n.axis(axis, x.rank());
  if (n.failed())
    return;
  int64_t parts = x.shape.back(), extent = x.shape[axis];
  if (axis == x.rank() - 1 || (parts != 1 && parts != 2) || extent < 1)
    return (void)n.fail("the input " + shapeText(x.shape) +
                        " must have 1 (real numbers) or 2 (complex ones) as "
                        "its last dimension and a signal along axis " +
                        llvm::Twine(axis));
  if (onesided && parts != (inverse ? 2 : 1))
    return (void)n.fail("onesided=1 needs an input of real numbers, with "
                        "inverse=1 one of complex numbers");
  Fourier f{length ? length : extent, 0, 0, parts, 2, inverse};
  if (onesided && inverse) {
    f.length = length ? length : 2 * (extent - 1);
    f.partsOut = 1;
    f.mirrored = true;
  }
  if (f.length < 1)
    return (void)n.fail("half a spectrum of one number needs dft_length");
  int64_t half = f.length / 2 + 1;
  f.from = std::min(extent,
                    f.mirrored ? half : f.length); // those behind it are zeros
  f.to = onesided && !inverse ? half : f.length;
  n.out(0, transform(n, x, axis, f));
}

/// The transforms of windows that begin at every frame_step-th number: [batch, windows, numbers, 2].
static void stft(Node &n) {
  Val x = n.floatIn(0), window = n.opt(2);
  bool onesided = n.attrInt("onesided", 1) != 0;
  int64_t step = knownCount(n, 1, "frame_step"), length = n.has(3) ? knownCount(n, 3, "frame_length") : 0;
  if (n.failed())
    return;
  if (x.rank() == 2) // as exporters write real signals
    x = n.b.reshape(x, {x.shape[0], x.shape[1], 1}, "real");
  if (x.rank() != 3 || (x.shape[2] != 1 && (x.shape[2] != 2 || onesided)))
    return (void)n.fail("the signal " + shapeText(x.shape) +
                        " must be [batch, length, 1] of real numbers, or with "
                        "onesided=0 [batch, length, 2] of complex ones");
  if (!length && !window)
    return (void)n.fail("window or frame_length is needed");
  if (!length)
    length = window.size();
  if (window && (window.rank() != 1 || window.size() != length))
    return (void)n.fail("the window " + shapeText(window.shape) + " must have frame_length (" + llvm::Twine(length) +
                        ") elements");
  if (length < 1 || length > x.shape[1])
    return (void)n.fail("a window of " + llvm::Twine(length) + " does not lie within a signal of " +
                        llvm::Twine(x.shape[1]));
  int64_t count = (x.shape[1] - length) / step + 1;
  Val start = n.b.iota(DType::I64, {count, 1}, 0, "frames"), offset = n.b.iota(DType::I64, {1, length}, 1, "offsets");
  Val at = n.b.add(n.b.mul(start, n.b.known(Constant::scalar(DType::I64, step)), "starts"), offset, "indices");
  x = n.b.gather(x, at, 1, "windows");
  if (window)
    x = n.b.mul(x, n.b.reshape(window, {length, 1}, "window"), "windowed");
  if (n.failed())
    return;
  n.out(0, transform(n, x, 2, {length, length, onesided ? length / 2 + 1 : length, x.shape[3], 2}));
}

llvm::ArrayRef<OpRow> tessera::compiler::signalOps() {
  static const OpRow rows[] = {
      {"BlackmanWindow", 17, kNewestOpset, blackmanWindow, "t", "size known at import"},
      {"DFT", 17, kNewestOpset, dft, ".tt", "dft_length and axis known at import"},
      {"HammingWindow", 17, kNewestOpset, hammingWindow, "t", "size known at import"},
      {"HannWindow", 17, kNewestOpset, hannWindow, "t", "size known at import"},
      {"MelWeightMatrix", 17, kNewestOpset, melWeightMatrix, "c", "operands known at import"},
      {"STFT", 17, kNewestOpset, stft, ".t*t", "frame_step and frame_length known at import"},
  };
  return rows;
}
