#include "runtime/backend/cuda/bind/conv/UnfoldedConv.h"

#include "runtime/backend/cuda/bind/Copies.h"
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/bind/Windows.h"
#include "runtime/backend/cuda/kernels/Kernels.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// At most so many channels: of the eight that cuDNN multiplies, at least half are zeros.
constexpr int64_t kMostChannels = 4;
/// The least operations: below, the launches take as long as cuDNN.
constexpr double kWorthLaunches = double(1 << 27);
/// Rows begin at multiples of 16 bytes, and are as long, as cuBLASLt's fast kernels want it.
constexpr int64_t kElementsAtOnce = 8;
/// A part of U. Caches have 40 to 60 MB, and share them with the other operands.
constexpr int64_t kPartBytes = int64_t(32) << 20;
/// The largest image, unfolded; and the most elements of a part of x, which kernels count with 32 bits.
constexpr int64_t kMostBytes = int64_t(1) << 30;
/// Blocks of 256 threads that unfold: four for each multiprocessor of an H100, all of them at a time. The more rows a
/// thread writes its piece of, the less it takes to find out where in a window that is.
constexpr int64_t kBlocks = 528;
/// A gradient's sum over points is made by as many products side by side, each of so many points at least, as fill a
/// device, and whose results are small beside a part of U.
constexpr int64_t kMostProducts = 128, kLeastPoints = 256, kResultsBytes = kPartBytes / 4;

/// Some neighbouring images.
struct Part {
  int64_t first = 0, images = 0;
};

/// As equal as possible; the last may have fewer.
std::vector<Part> partsOf(int64_t images, int64_t imageBytes) {
  const int64_t most = std::max<int64_t>(kPartBytes / imageBytes, 1), count = (images + most - 1) / most,
                each = (images + count - 1) / count;
  std::vector<Part> parts;
  for (int64_t first = 0; first < images; first += each)
    parts.push_back({first, std::min(each, images - first)});
  return parts;
}

int64_t volume(const std::array<int64_t, 3> &sizes) { return sizes[0] * sizes[1] * sizes[2]; }

class Unfolded {
public:
  Unfolded(const KernelCall &call, const ConvGeometry &g)
      : call_(call), g_(g), points_(volume(g.out)), columns_(volume(g.kernel) * g.c),
        pitch_((columns_ + kElementsAtOnce - 1) / kElementsAtOnce * kElementsAtOnce) {}

  bool isWorthIt() const {
    return g_.groups == 1 && g_.c <= kMostChannels &&
           2.0 * double(g_.n) * double(points_) * double(g_.f) * double(columns_) >= kWorthLaunches;
  }

  /// Whether all indices of the kernel that unfolds fit into 32 bits.
  bool fits() const {
    for (size_t d = 0; d < 3; ++d)
      for (const int64_t reach : {g_.in[d], g_.out[d] * g_.stride[d], g_.kernel[d] * g_.dilation[d], g_.padLo[d]})
        if (reach > INT32_MAX / 4)
          return false;
    if (double(points_) * double(pitch_) * 2 > double(kMostBytes))
      return false;
    const double images = double(partsOf(g_.n, imageBytes()).front().images);
    // What lies before an image and behind it is computed with, too.
    double elements = images * double(g_.c);
    for (size_t d = 0; d < 3; ++d)
      elements *= double(g_.in[d] + g_.padLo[d] + g_.padHi[d]);
    return elements <= double(kMostBytes);
  }

  CudaKernel forward() {
    const std::vector<Part> parts = begin();
    const Place w = filters();
    for (const Part &part : parts) {
      unfold(part);
      TesseraMatMul what = product();
      what.transposeB = 1;
      what.m = part.images * points_;
      what.n = g_.f;
      what.k = pitch_;
      what.ldA = what.ldB = pitch_;
      what.ldY = g_.f;
      what.resultType = call_.outputs[0].dtype;
      multiply({what, unfolded_, w, imageOf(call_.outputs[0], part.first)});
    }
    return std::move(kernel_);
  }

  CudaKernel filterGradient() {
    const std::vector<Part> parts = begin();
    const int64_t whole = productsOf(parts.front()),
                  rest = parts.back().images == parts.front().images ? 0 : productsOf(parts.back());
    const auto resultBytes = uint64_t(g_.f * pitch_) * sizeof(float);
    const Place sums = kernel_.reserve(uint64_t(whole + rest) * resultBytes);
    for (const Part &part : parts) {
      unfold(part);
      const bool isRest = part.images != parts.front().images;
      TesseraMatMul what = product();
      what.transposeA = 1;
      what.batch = isRest ? rest : whole;
      what.m = g_.f;
      what.n = pitch_;
      what.k = part.images * points_ / what.batch;
      what.ldA = g_.f;
      what.ldB = what.ldY = pitch_;
      what.strideA = what.k * what.ldA;
      what.strideB = what.k * what.ldB;
      what.strideY = what.m * what.ldY;
      what.resultType = plan::F32;
      what.accumulate = part.first > 0 && !isRest;
      Place y = sums;
      y.value += isRest ? uint64_t(whole) * resultBytes : 0;
      multiply({what, imageOf(call_.inputs[1], part.first), unfolded_, y});
    }
    addUp(sums, whole + rest);
    return std::move(kernel_);
  }

private:
  int64_t imageBytes() const { return points_ * pitch_ * 2; }

  std::vector<Part> begin() {
    std::vector<Part> parts = partsOf(g_.n, imageBytes());
    kernel_.description = "cuBLASLt " + dtypeName(call_.inputs[0].dtype) + " channels last, windows unfolded";
    unfolded_ = kernel_.reserve(uint64_t(parts.front().images * imageBytes()));
    return parts;
  }

  /// Where an image of x, y or dy begins.
  static Place imageOf(const TensorView &t, int64_t image) {
    Place place = at(t.data);
    place.value += uint64_t(image * (t.elements() / t.shape[0])) * bytesPerElement(t.dtype);
    return place;
  }

  void unfold(const Part &part) {
    auto number = [](int64_t v) { return std::to_string(v); };
    const int64_t pieces = pitch_ / kElementsAtOnce, points = part.images * points_;
    // As many blocks as a row has pieces write 256 rows at a time.
    const int64_t times = std::clamp<int64_t>(kBlocks / pieces, 1, (points + 255) / 256);
    Constants constants = {{"N", number(part.images)}, {"C", number(g_.c)}, {"APART", number(256 * times) + "u"}};
    addWindows(constants, g_, [](int64_t v) { return std::to_string(v); });
    Launch launch{withConstants(constants, kernels::kUnfold),
                  {uint32_t(times * pieces), 1, 1},
                  256,
                  {imageOf(call_.inputs[0], part.first), unfolded_}};
    launch.copied = uint64_t(part.images * imageBytes());
    kernel_.actions.emplace_back(std::move(launch));
  }

  TesseraMatMul product() const {
    TesseraMatMul what = {};
    what.dtype = call_.inputs[0].dtype;
    what.batch = 1;
    return what;
  }

  void multiply(LibraryMatMul action) {
    const TesseraMatMul &w = action.what;
    action.what.alignment = alignmentOf({action.a,
                                         action.b,
                                         action.y,
                                         {false, uint64_t(w.strideA) * 2},
                                         {false, uint64_t(w.strideB) * 2},
                                         {false, uint64_t(w.strideY) * 2}});
    kernel_.actions.emplace_back(action);
  }

  /// The filters in rows as long as those of U.
  Place filters() {
    const TensorView &w = call_.inputs[1];
    if (columns_ == pitch_)
      return at(w.data);
    const auto bytes = uint64_t(g_.f * pitch_) * 2;
    const Place copy = kernel_.reserve(bytes);
    kernel_.actions.emplace_back(FillBytes{copy, bytes});
    Launch launch =
        launchLoop(stridedCopy({{g_.f, columns_}, {pitch_, 1}, {columns_, 1}, 2}), w.elements(), {at(w.data), copy});
    launch.copied = bytes;
    kernel_.actions.emplace_back(std::move(launch));
    return copy;
  }

  /// The largest divisor of a part's points that is no more than the products that are wanted.
  int64_t productsOf(const Part &part) const {
    const int64_t points = part.images * points_;
    int64_t products = std::min({kMostProducts, points / kLeastPoints, kResultsBytes / (g_.f * pitch_ * 4)});
    while (products > 1 && points % products != 0)
      --products;
    return std::max<int64_t>(products, 1);
  }

  /// Adds the results of all products, without the columns of zeros.
  void addUp(const Place &sums, int64_t products) {
    KernelCall call;
    TensorView &from = call.inputs.emplace_back(), &to = call.outputs.emplace_back(call_.outputs[0]);
    from.dtype = plan::F32;
    from.shape = {products, g_.f, columns_};
    from.layout.pitch = pitch_;
    from.data = reinterpret_cast<void *>(kScratchBase + kRowCopies + sums.value);
    to.shape = {1, g_.f, columns_};
    to.layout = Layout();
    ExpressionCode code;
    code.domain = from.shape;
    code.inputs.push_back({from.dtype, from.shape, pitch_});
    code.results.push_back({0, plan::SUM, to.dtype, to.shape});
    CudaKernel sum = bindExpression(code, call);
    // Its own scratch memory lies behind everything else.
    for (Action &action : sum.actions) {
      for (Place &place : std::get<Launch>(action).arguments)
        if (place.scratch && place.value < 2 * kRowCopies)
          place.value = place.value < kRowCopies ? place.value + kernel_.scratch : place.value - kRowCopies;
      kernel_.actions.push_back(std::move(action));
    }
    kernel_.scratch += sum.scratch;
  }

  const KernelCall &call_;
  const ConvGeometry &g_;
  const int64_t points_, columns_, pitch_; // of an image's result; of a row of U without and with zeros
  Place unfolded_;
  CudaKernel kernel_;
};

} // namespace

std::optional<CudaKernel> bindUnfolded(const KernelCall &call, const ConvGeometry &g) {
  const plan::DType type = call.inputs[0].dtype;
  Unfolded unfolded(call, g);
  if ((type != plan::F16 && type != plan::BF16) || call.name() == "conv_input_grad" || !unfolded.isWorthIt() ||
      !unfolded.fits())
    return std::nullopt;
  return call.name() == "conv" ? unfolded.forward() : unfolded.filterGradient();
}

} // namespace tessera::rt::cuda
