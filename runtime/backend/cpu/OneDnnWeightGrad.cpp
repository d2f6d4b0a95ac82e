// conv_weight_grad whose bits depend on no number of threads. A primitive of one thread computes a leaf, or a leaf of a
// block of output channels. Many channels have a gradient that is larger than the caches, and a primitive adds one
// image after the other to it. A block of them fits the second cache, with the sums of leaves that wait for a
// neighbour: then memory sees the sum alone. A block's channels of dy are copied, since oneDNN takes no images that lie
// apart.
//
// Where there are fewer blocks than threads, a block's leaves are shared out: each share is a subtree, which one thread
// adds. All threads add the shares' sums.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/RoundedSum.h"
#include "runtime/plan/Alignment.h"

#include <bit>
#include <cstring>
#include <unordered_map>

namespace tessera::rt {
namespace {

using dnnl::memory;

constexpr int64_t kChannels = 16;          // output channels that oneDNN computes together, on any processor
constexpr int64_t kBlockBytes = 256 << 10; // of a block's gradient
constexpr int64_t kLargeBytes = 8 << 20;   // of all leaves' gradients

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/// An operand of a primitive, as it lies and as the primitive takes it.
struct Operand {
  memory::desc lies, wanted;
  dnnl::reorder reorder; // from the one to the other, or back for a result
  Operand() = default;
  Operand(const memory::desc &lies, const memory::desc &wanted, bool result = false) : lies(lies), wanted(wanted) {
    if (!inPlace())
      reorder = dnnl::reorder(dnnl::reorder::primitive_desc(dnnlEngine(), result ? wanted : lies, dnnlEngine(),
                                                            result ? lies : wanted, dnnlAttributes()));
  }
  bool inPlace() const { return lies == wanted; }
  size_t copyBytes() const { return inPlace() ? 0 : aligned(wanted.get_size()); }
};

/// A leaf of a block of output channels.
struct Part {
  dnnl::convolution_backward_weights primitive;
  std::string name;
  Operand x, dy, dw;
  memory::desc pad;
  int64_t channels = 1; // of dy
  bool inPlace() const { return x.inPlace() && dy.inPlace() && dw.inPlace(); }
};

memory view(const memory::desc &desc, std::byte *data) { return {desc, dnnlEngine(), data}; }

class LeafWeightGrad final : public BoundKernel {
public:
  explicit LeafWeightGrad(const KernelCall &call)
      : g_(*convGeometry(call)), threads_(call.threads), x_(call.inputs[0]), dy_(call.inputs[1]), dw_(call.outputs[0]),
        kernel_(*call.kernel), leaf_(call) {
    kernel_.clear_attributes();
    for (const plan::Attribute &attribute : call.kernel->attributes())
      if (attribute.name() != "leaves")
        *kernel_.add_attributes() = attribute;
    leaf_.kernel = &kernel_;
    leaf_.inputs[0].shape[0] = leaf_.inputs[1].shape[0] = g_.n / g_.leaves;
  }

  /// False where oneDNN has no primitive.
  bool prepare() {
    useThreads(1);
    std::optional<Part> whole = describePart(leaf_.inputs[1].shape[1]);
    if (!whole)
      return false;
    part_ = std::move(*whole);
    if (const int64_t channels = blockOfChannels(); channels > 0)
      if (std::optional<Part> block = describePart(channels); block && block->inPlace() && block->name == part_.name) {
        part_ = std::move(*block);
        blocks_ = g_.f / channels;
      }
    // As few shares as keep all threads busy.
    const auto turns = [&](int64_t shares) { return double(parts(blocks_ * shares, threads_)) / double(shares); };
    while (shares_ < g_.leaves && turns(2 * shares_) < 0.95 * turns(shares_))
      shares_ *= 2;
    levels_ = size_t(std::countr_zero(uint64_t(g_.leaves / shares_)));
    return true;
  }

  size_t scratchBytes() const override { return sharedBytes() + size_t(threads_) * perThread(); }
  std::string describe() const override {
    return "oneDNN " + part_.name + ", " + std::to_string(g_.leaves) + (g_.leaves == 1 ? " leaf" : " leaves") +
           " in blocks of " + std::to_string(part_.channels) + " channels" + (part_.inPlace() ? "" : " with reorders");
  }

  Status run(std::byte *scratch) override {
    std::byte *const result = part_.dw.inPlace() ? dw_.as<std::byte>() : scratch;
    std::byte *const otherShares = scratch + part_.dw.copyBytes();
    const auto share = [&](int64_t s) { return s == 0 ? result : otherShares + size_t(s - 1) * shareBytes(); };
    const int64_t tasks = blocks_ * shares_, threads = std::min<int64_t>(threads_, tasks);
    std::vector<Status> results(static_cast<size_t>(threads));
    parallelFor(int(threads), threads, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t)
        try {
          dnnl::stream stream(dnnlEngine());
          std::byte *const memory = scratch + sharedBytes() + size_t(t) * perThread();
          for (int64_t i = tasks * t / threads; i < tasks * (t + 1) / threads; ++i)
            compute(stream, memory, i / shares_, i % shares_, share(i % shares_) + size_t(i / shares_) * blockBytes());
        } catch (const dnnl::error &e) {
          results[size_t(t)] = Status::error(describe() + ": " + e.message);
        }
    });
    for (Status &status : results)
      TESSERA_RETURN_IF_ERROR(std::move(status));
    addTree(dw_.dtype, result, otherShares, shareBytes(), shares_, elementsOf(size_t(blocks_) * blockBytes()),
            threads_);
    if (!part_.dw.inPlace()) {
      useThreads(1);
      dnnl::stream stream(dnnlEngine());
      memory sum = view(part_.dw.wanted, result), lies = view(part_.dw.lies, dw_.as<std::byte>());
      part_.dw.reorder.execute(stream, sum, lies);
      stream.wait();
    }
    return Status();
  }

private:
  std::optional<Part> describePart(int64_t channels) const {
    KernelCall call = leaf_;
    call.inputs[1].shape[1] = call.outputs[0].shape[0] = channels;
    const auto pd = describeWeightGrad(call);
    if (!pd)
      return std::nullopt;
    const auto groups = g_.groups > 1 ? g_.groups : 0;
    return Part{.primitive = dnnl::convolution_backward_weights(pd),
                .name = pd.impl_info_str(),
                .x = {describeView(call.inputs[0], 0, true), pd.src_desc()},
                .dy = {describeView(call.inputs[1], 0, true), pd.diff_dst_desc()},
                .dw = {describeView(call.outputs[0], groups, true), pd.diff_weights_desc(), true},
                .pad = pd.scratchpad_desc(),
                .channels = channels};
  }

  /// How many output channels a block has; 0: all.
  int64_t blockOfChannels() const {
    const auto blockOf = [](const Layout &layout, int dim) {
      int64_t block = 1;
      for (auto [d, size] : layout.inner)
        block *= d == dim ? size : 1;
      return block;
    };
    if (g_.groups > 1 || !part_.inPlace() || g_.f % kChannels != 0 || kChannels % blockOf(dy_.layout, 1) != 0 ||
        kChannels % blockOf(dw_.layout, 0) != 0)
      return 0;
    const auto bytes = int64_t(part_.dw.wanted.get_size());
    const bool large = bytes * g_.leaves > kLargeBytes;
    if (!large && g_.leaves >= threads_)
      return 0;
    int64_t most = kChannels;
    for (int64_t channels = kChannels; channels < g_.f; channels += kChannels)
      if (g_.f % channels == 0 && (!large || bytes / g_.f * channels <= kBlockBytes) &&
          (g_.leaves >= threads_ || g_.f / channels >= threads_))
        most = channels;
    return most;
  }

  size_t blockBytes() const { return part_.dw.wanted.get_size(); }
  size_t shareBytes() const { return aligned(size_t(blocks_) * blockBytes()); }
  size_t sharedBytes() const { return part_.dw.copyBytes() + size_t(shares_ - 1) * shareBytes(); }
  /// A copy of a part of dy, reordered operands, what oneDNN needs, and sums: one of every size, and a leaf's.
  size_t perThread() const {
    return aligned(part_.dy.lies.get_size()) + part_.x.copyBytes() + part_.dy.copyBytes() +
           aligned(part_.pad.get_size()) + (levels_ + 1) * aligned(blockBytes()) + kThreadsApart;
  }

  int64_t elementsOf(size_t bytes) const { return int64_t(bytes / bytesPerElement(dw_.dtype)); }

  /// The sum of a share of the leaves of a block.
  void compute(dnnl::stream &stream, std::byte *scratch, int64_t block, int64_t share, std::byte *result) const {
    std::byte *const copy = scratch, *const x = copy + aligned(part_.dy.lies.get_size()),
                     *const dy = x + part_.x.copyBytes(), *const pad = dy + part_.dy.copyBytes(),
                     *const sums = pad + aligned(part_.pad.get_size());
    const int64_t leaves = g_.leaves / shares_;
    size_t level = 0;
    for (int64_t leaf = 0; leaf < leaves; ++leaf, ++level) {
      const auto sum = [&](size_t i) { return sums + i * aligned(blockBytes()); };
      const int64_t number = share * leaves + leaf;
      std::byte *const to = leaves == 1 ? result : sum(level);
      part_.primitive.execute(stream,
                              {{DNNL_ARG_SRC, operand(stream, part_.x, rows(x_, number), x)},
                               {DNNL_ARG_DIFF_DST, operand(stream, part_.dy, channelsOf(number, block, copy), dy)},
                               {DNNL_ARG_DIFF_WEIGHTS, view(part_.dw.wanted, to)},
                               {DNNL_ARG_SCRATCHPAD, view(part_.pad, pad)}});
      stream.wait();
      for (auto carried = uint64_t(leaf); carried & 1; carried >>= 1, --level)
        addRounded(dw_.dtype, level == 1 && leaf + 1 == leaves ? result : sum(level - 1), sum(level - 1), sum(level),
                   elementsOf(blockBytes()));
    }
  }

  static memory operand(dnnl::stream &stream, const Operand &operand, std::byte *lies, std::byte *copy) {
    if (operand.inPlace())
      return view(operand.wanted, lies);
    memory from = view(operand.lies, lies), to = view(operand.wanted, copy);
    operand.reorder.execute(stream, from, to);
    return to;
  }

  /// The images of a leaf.
  std::byte *rows(const TensorView &images, int64_t leaf) const {
    return images.as<std::byte>() + int64_t(images.bytes()) / g_.leaves * leaf;
  }
  /// A block of their channels of dy: of one image where it lies.
  std::byte *channelsOf(int64_t leaf, int64_t block, std::byte *copy) const {
    const int64_t images = g_.n / g_.leaves, image = int64_t(dy_.bytes()) / g_.n, some = image / blocks_;
    std::byte *const from = rows(dy_, leaf) + block * some;
    if (blocks_ == 1 || images == 1)
      return from;
    for (int64_t n = 0; n < images; ++n)
      std::memcpy(copy + n * some, from + n * image, size_t(some));
    return copy;
  }

  ConvGeometry g_;
  int threads_;
  TensorView x_, dy_, dw_;
  plan::Kernel kernel_; // without leaves
  KernelCall leaf_;
  Part part_;
  int64_t blocks_ = 1, shares_ = 1;
  size_t levels_ = 0; // of a share's tree
};

} // namespace

std::unique_ptr<BoundKernel> bindLeafWeightGrad(const KernelCall &call) {
  auto kernel = std::make_unique<LeafWeightGrad>(call);
  return kernel->prepare() ? std::move(kernel) : nullptr;
}

} // namespace tessera::rt
