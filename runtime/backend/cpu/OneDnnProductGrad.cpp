// conv_weight_grad as a product of matrices by AMX, with channels last: the pixels of all images are the rows of dy,
// and of x's windows, a row of which has kernel * c numbers; dw = dy^T windows. Of single points the windows are x
// itself. Others are copied, some lines of pixels at a time so that they are read from a cache, and their products are
// added. oneDNN 2.6 has no gradient of weights by AMX that can be trusted (OneDnnVersion.cpp). That of version 3 adds
// image by image: it takes 4 times as long for images of 4 x 4 points, twice for 8 x 8, and half for 64 x 64.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Layouts.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/InstructionSet.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/plan/Alignment.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

using dnnl::memory;

constexpr int64_t kSmallLine = 16;        // points; from here on version 3 needs no copies
constexpr int64_t kWindowBytes = 2 << 20; // of the windows that are copied at once: the second cache of a core

bool liesLast(const TensorView &t) {
  return t.dtype == plan::BF16 && !t.layout.plain() && t.layout == channelsLastLayout(t.shape);
}

int64_t product(const std::array<int64_t, 3> &numbers) { return numbers[0] * numbers[1] * numbers[2]; }

/// Lines of pixels of results, whose windows are one operand.
struct Block {
  dnnl::matmul multiply;
  memory::desc dy, windows, sums, pad;
};

class ProductGrad final : public BoundKernel {
public:
  explicit ProductGrad(const KernelCall &call)
      : g_(*convGeometry(call)), threads_(call.threads), x_(call.inputs[0]), dy_(call.inputs[1]), dw_(call.outputs[0]),
        stream_(dnnlEngine()) {
    const auto all = [](const std::array<int64_t, 3> &numbers, int64_t value) {
      return std::ranges::all_of(numbers, [value](int64_t n) { return n == value; });
    };
    copies_ = !all(g_.kernel, 1) || !all(g_.stride, 1) || !all(g_.padLo, 0) || !all(g_.padHi, 0);
    width_ = product(g_.kernel) * g_.c;
    lines_ = g_.n * g_.out[0] * g_.out[1];
    // Blocks of about one size: oneDNN has no AMX for few pixels.
    const int64_t most = copies_ ? std::clamp<int64_t>(kWindowBytes / (g_.out[2] * width_ * 2), 1, lines_) : lines_;
    const int64_t blocks = (lines_ + most - 1) / most;
    linesOfBlock_ = (lines_ + blocks - 1) / blocks;
  }

  /// Whether oneDNN's own gradient takes longer.
  bool pays() const { return !copies_ || dnnlVersion() < DnnlVersion{3, 0, 0} || g_.out[2] < kSmallLine; }
  /// False where oneDNN has no product by AMX.
  bool prepare() {
    useThreads(threads_);
    const memory::dims kernel(g_.kernel.begin() + int64_t(3 - g_.spatial), g_.kernel.end());
    memory::dims dims{g_.f, g_.c}, strides{width_, 1};
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    for (size_t d = 0; d < kernel.size(); ++d) {
      int64_t step = g_.c;
      for (size_t e = d + 1; e < kernel.size(); ++e)
        step *= kernel[e];
      strides.push_back(step);
    }
    const memory::desc made(dims, memory::data_type::f32, strides), wanted = describeView(dw_);
    put_ = dnnl::reorder(dnnl::reorder::primitive_desc(dnnlEngine(), made, dnnlEngine(), wanted, dnnlAttributes()));
    made_ = made, wanted_ = wanted;
    if (!describe(first_, std::min(linesOfBlock_, lines_), false) ||
        (lines_ > linesOfBlock_ && !describe(next_, linesOfBlock_, true)))
      return false;
    if (const int64_t rest = lines_ % linesOfBlock_; rest && !describe(last_, rest, true))
      return false;
    windowsAt_ = aligned(made.get_size());
    padAt_ = windowsAt_ + (copies_ ? aligned(size_t(linesOfBlock_ * g_.out[2] * width_ * 2)) : 0);
    return true;
  }

  std::string describe() const override { return "oneDNN product " + implementation_ + (copies_ ? " of windows" : ""); }
  size_t scratchBytes() const override {
    size_t pad = 0;
    for (const Block *block : {&first_, &next_, &last_})
      pad = std::max(pad, block->pad ? block->pad.get_size() : 0);
    return padAt_ + pad;
  }

  Status run(std::byte *scratch) override {
    useThreads(threads_);
    try {
      for (int64_t line = 0; line < lines_; line += linesOfBlock_) {
        const int64_t lines = std::min(linesOfBlock_, lines_ - line);
        const Block &block = line == 0 ? first_ : lines == linesOfBlock_ ? next_ : last_;
        if (copies_)
          copyWindows(line, lines, reinterpret_cast<uint16_t *>(scratch + windowsAt_));
        void *const windows = copies_ ? static_cast<void *>(scratch + windowsAt_) : x_.data;
        block.multiply.execute(
            stream_, {{DNNL_ARG_SRC, memory(block.dy, dnnlEngine(), dy_.as<uint16_t>() + line * g_.out[2] * g_.f)},
                      {DNNL_ARG_WEIGHTS, memory(block.windows, dnnlEngine(), windows)},
                      {DNNL_ARG_DST, memory(block.sums, dnnlEngine(), scratch)},
                      {DNNL_ARG_SCRATCHPAD, memory(block.pad, dnnlEngine(), scratch + padAt_)}});
      }
      memory made(made_, dnnlEngine(), scratch), result(wanted_, dnnlEngine(), dw_.data);
      put_.execute(stream_, made, result);
      stream_.wait();
    } catch (const dnnl::error &e) {
      return Status::error(describe() + ": " + e.message);
    }
    return Status();
  }

private:
  bool describe(Block &block, int64_t lines, bool adds) {
    const int64_t pixels = lines * g_.out[2];
    block.dy = memory::desc({g_.f, pixels}, memory::data_type::bf16, memory::dims{1, g_.f});
    block.windows = memory::desc({pixels, width_}, memory::data_type::bf16, memory::dims{width_, 1});
    block.sums = memory::desc({g_.f, width_}, memory::data_type::f32, memory::dims{width_, 1});
    Wanted wanted;
    if (adds) {
      dnnl::post_ops ops;
      ops.append_sum();
      wanted.attributes.set_post_ops(ops);
    }
    const auto pd = describePrimitiveWith<dnnl::matmul>(wanted, block.dy, block.windows, block.sums);
    if (!pd || std::string(pd.impl_info_str()).find("amx") == std::string::npos)
      return false;
    implementation_ = pd.impl_info_str();
    block.multiply = dnnl::matmul(pd);
    block.pad = pd.scratchpad_desc();
    return true;
  }

  /// The windows of all pixels of some lines: to[pixel][kernel][channel], 0 beyond an image's borders.
  void copyWindows(int64_t firstLine, int64_t lines, uint16_t *to) const {
    parallelFor(threads_, lines, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t line = firstLine + i, image = line / (g_.out[0] * g_.out[1]);
        const std::array<int64_t, 2> at{line / g_.out[1] % g_.out[0], line % g_.out[1]};
        copyLine(x_.as<uint16_t>() + image * product(g_.in) * g_.c, at, to + i * g_.out[2] * width_);
      }
    });
  }
  void copyLine(const uint16_t *image, const std::array<int64_t, 2> &at, uint16_t *to) const {
    const int64_t c = g_.c;
    for (int64_t pixel = 0; pixel < g_.out[2]; ++pixel)
      for (int64_t k0 = 0; k0 < g_.kernel[0]; ++k0)
        for (int64_t k1 = 0; k1 < g_.kernel[1]; ++k1) {
          const int64_t p0 = placeOf(0, at[0], k0), p1 = placeOf(1, at[1], k1);
          const bool inside = p0 >= 0 && p0 < g_.in[0] && p1 >= 0 && p1 < g_.in[1];
          const uint16_t *const row = image + (p0 * g_.in[1] + p1) * g_.in[2] * c;
          for (int64_t k2 = 0; k2 < g_.kernel[2]; ++k2, to += c) {
            const int64_t p2 = placeOf(2, pixel, k2);
            if (inside && p2 >= 0 && p2 < g_.in[2])
              std::memcpy(to, row + p2 * c, size_t(c) * 2);
            else
              std::memset(to, 0, size_t(c) * 2);
          }
        }
  }
  int64_t placeOf(size_t d, int64_t out, int64_t k) const {
    return out * g_.stride[d] + k * g_.dilation[d] - g_.padLo[d];
  }

  ConvGeometry g_;
  int threads_;
  TensorView x_, dy_, dw_;
  bool copies_ = true;
  int64_t width_ = 0, lines_ = 0, linesOfBlock_ = 0;
  Block first_, next_, last_;
  memory::desc made_, wanted_;
  dnnl::reorder put_;
  dnnl::stream stream_;
  size_t windowsAt_ = 0, padAt_ = 0;
  std::string implementation_;
};

bool accepts(const KernelCall &call) {
  if (!multipliesTiles() || call.exact || !acceptsDnnl(call) || !liesLast(call.inputs[0]) ||
      !liesLast(call.inputs[1]) || !call.outputs[0].layout.plain())
    return false;
  const ConvGeometry g = *convGeometry(call);
  return g.groups == 1 && g.leaves == 1;
}

BindResult bind(const KernelCall &call) {
  try {
    auto kernel = std::make_unique<ProductGrad>(call);
    return BindResult(kernel->pays() && kernel->prepare() ? std::move(kernel) : nullptr);
  } catch (const dnnl::error &) {
    return BindResult(std::unique_ptr<BoundKernel>());
  }
}

} // namespace

void registerOneDnnProductGrad(KernelRegistry &registry) {
  registry.add("conv_weight_grad", {"oneDNN's product", accepts, bind});
}

} // namespace tessera::rt
