//===- Signal.cpp - signal windows, mel filters
//---------------------------------------------------===//

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

/// Triangles over the bins of a spectrum, one a column, whose corners lie
/// evenly on the mel scale.
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

llvm::ArrayRef<OpRow> tessera::compiler::signalOps() {
  static const OpRow rows[] = {
      {"BlackmanWindow", 17, 21, blackmanWindow, "t", "size known at import"},
      {"HammingWindow", 17, 21, hammingWindow, "t", "size known at import"},
      {"HannWindow", 17, 21, hannWindow, "t", "size known at import"},
      {"MelWeightMatrix", 17, 21, melWeightMatrix, "t", "operands known at import"},
  };
  return rows;
}
