#include "runtime/backend/cpu/CpuBackend.h"
#include "runtime/backend/HostPlan.h"
#include "runtime/backend/Layouts.h"
#include "runtime/backend/cpu/Attention.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/fused/FusedKernel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

namespace tessera::rt {
namespace {

int64_t roundUp(int64_t n) { return (n + 63) / 64 * 64; }

/// A kernel on plain copies of its operands: reorders in, the kernel, reorders out.
class ReorderedKernel final : public BoundKernel {
public:
  /// One operand that is copied. `offset` is its place in the scratch.
  struct Copy {
    TensorView buffer;
    size_t offset;
    bool output;
  };

  ReorderedKernel(std::vector<Copy> copies, size_t copyBytes, int threads,
                  std::function<BindResult(std::byte *)> bind)
      : copies_(std::move(copies)), copyBytes_(copyBytes), threads_(threads),
        bind_(std::move(bind)) {}

  Status prepare() {
    // Bound once against no memory, to learn what it is and needs.
    BindResult bound = bind_(reinterpret_cast<std::byte *>(64));
    if (!bound)
      return bound.status();
    innerScratch_ = (*bound)->scratchBytes();
    description_ = (*bound)->describe();
    return Status();
  }

  size_t scratchBytes() const override { return copyBytes_ + innerScratch_; }
  std::string describe() const override {
    return description_ + " with " + std::to_string(copies_.size()) + " reorders";
  }

  Status run(std::byte *scratch) override {
    if (!inner_ || boundTo_ != scratch) {
      BindResult bound = bind_(scratch);
      if (!bound)
        return bound.status();
      inner_ = std::move(*bound);
      boundTo_ = scratch;
    }
    for (const Copy &c : copies_)
      if (!c.output)
        convertLayout(scratch + c.offset, Layout(), c.buffer.data, c.buffer.layout, c.buffer.shape,
                      bytesPerElement(c.buffer.dtype), threads_);
    TESSERA_RETURN_IF_ERROR(inner_->run(scratch + copyBytes_));
    for (const Copy &c : copies_)
      if (c.output)
        convertLayout(c.buffer.data, c.buffer.layout, scratch + c.offset, Layout(), c.buffer.shape,
                      bytesPerElement(c.buffer.dtype), threads_);
    return Status();
  }

private:
  std::vector<Copy> copies_;
  size_t copyBytes_, innerScratch_ = 0;
  int threads_;
  std::function<BindResult(std::byte *)> bind_;
  std::unique_ptr<BoundKernel> inner_;
  std::byte *boundTo_ = nullptr;
  std::string description_;
};

/// Activations by channels, weights by output and input channels.
LayoutWishes blocked(int block) {
  LayoutWishes wishes;
  // Of 16-bit weights oneDNN interleaves pairs, which no layout here says: they are reordered.
  wishes.wanted = [](plan::DType type, bool weight) {
    return type == plan::F32 || (type == plan::BF16 && !weight);
  };
  wishes.layout = [block](const Shape &shape, bool weight) -> Layout {
    if (shape[1] % block || (weight && shape[0] % block))
      return {};
    return weight ? Layout{{{1, block}, {0, block}}} : Layout{{{1, block}}};
  };
  return wishes;
}

class CpuBackend final : public Backend {
public:
  CpuBackend() {
    registerOneDnnKernels(registry_);
    registerFusedKernels(registry_);
    registerVectorSoftmax(registry_);
    registerTiledAttention(registry_);
    registerReferenceKernels(registry_);
    registerReferenceKernels(wide_);
  }
  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan,
                                           const LoadOptions &options) override {
    if (options.widen)
      return HostPlan::load(plan, options, "cpu",
                            [this](const KernelCall &call) { return wide_.bind(call); });
    Result<std::vector<std::vector<KernelCall>>> calls = HostPlan::calls(plan, options);
    if (!calls)
      return calls.status();
    std::vector<Layout> layouts = chooseLayouts(plan, *calls, blocked(channelBlock()));
    return HostPlan::load(
        plan, options, "cpu", [this](const KernelCall &c) { return bind(c); }, std::move(layouts));
  }

private:
  BindResult bind(const KernelCall &call) const {
    BindResult bound = registry_.bind(call);
    if (bound || acceptsPlain(call))
      return bound;
    std::vector<ReorderedKernel::Copy> copies;
    size_t bytes = 0;
    auto place = [&](const TensorView &t, bool output) {
      if (t.layout.plain())
        return;
      copies.push_back({t, bytes, output});
      bytes += static_cast<size_t>(roundUp(static_cast<int64_t>(t.bytes())));
    };
    for (const TensorView &t : call.inputs)
      place(t, false);
    for (const TensorView &t : call.outputs)
      place(t, true);
    auto bindPlain = [this, call, copies](std::byte *scratch) {
      KernelCall plain = call;
      size_t next = 0;
      for (auto *list : {&plain.inputs, &plain.outputs})
        for (TensorView &t : *list)
          if (!t.layout.plain()) {
            t.data = scratch + copies[next++].offset;
            t.layout = Layout();
          }
      return registry_.bind(plain);
    };
    auto kernel = std::make_unique<ReorderedKernel>(copies, bytes, call.threads, bindPlain);
    TESSERA_RETURN_IF_ERROR(kernel->prepare());
    return BindResult(std::move(kernel));
  }

  KernelRegistry registry_, wide_;
};

} // namespace

std::unique_ptr<Backend> createCpuBackend() { return std::make_unique<CpuBackend>(); }

} // namespace tessera::rt
