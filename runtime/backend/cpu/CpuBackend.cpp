#include "runtime/backend/cpu/CpuBackend.h"
#include "runtime/backend/HostPlan.h"
#include "runtime/backend/Layouts.h"
#include "runtime/backend/cpu/Attention.h"
#include "runtime/backend/cpu/InstructionSet.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/Reordered.h"
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/fused/FusedKernel.h"
#include "runtime/backend/cpu/fused/VectorOps.h"
#include "runtime/backend/cpu/product/KeptMatMul.h"
#include "runtime/backend/cpu/product/OrderedConv.h"
#include "runtime/backend/cpu/product/OrderedMatMul.h"
#include "runtime/backend/cpu/product/OrderedWeightGrad.h"
#include "runtime/backend/cpu/product/PairMatMul.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// The channels of a block where they do not fill larger ones.
constexpr int kSmallBlock = 8;

/// Whether activations may have small blocks. oneDNN computes with them by other code, whose sums have another order,
/// and has none for 16 bits.
bool maySmallBlocks(const plan::Plan &plan) {
  return !plan.leaves() &&
         std::ranges::none_of(plan.buffers(), [](const plan::Buffer &b) { return bytesPerElement(b.dtype()) == 2; });
}

/// Activations are blocked by channels, weights by output and input channels.
LayoutWishes blocked(int block, bool small) {
  LayoutWishes wishes;
  // oneDNN interleaves pairs of BF16 weights. Layout cannot express that, so these weights are reordered. F16 becomes
  // F32 before each convolution.
  wishes.wanted = [](plan::DType type, bool weight) {
    return type == plan::F32 || type == plan::F16 || (type == plan::BF16 && !weight);
  };
  wishes.layout = [block, small](const Shape &shape, bool weight) -> Layout {
    if (small && !weight && shape[1] % block && shape[1] % kSmallBlock == 0)
      return {{{1, kSmallBlock}}};
    if (shape[1] % block || (weight && shape[0] % block))
      return {};
    return weight ? Layout{{{1, block}, {0, block}}} : Layout{{{1, block}}};
  };
  return wishes;
}

/// Channels last: where tiles of BF16 are multiplied, oneDNN convolves in this layout only. Kernels take weights as
/// they prefer them. Fewer channels than a vector has numbers are too few for loops.
LayoutWishes channelsLast() {
  LayoutWishes wishes;
  wishes.wanted = [](plan::DType type, bool weight) { return !weight && (type == plan::BF16 || type == plan::F32); };
  wishes.layout = [](const Shape &shape, bool) -> Layout {
    return shape[1] % kLanes == 0 ? channelsLastLayout(shape) : Layout();
  };
  return wishes;
}

/// What fits the plan's convolutions on this processor. Reproducible plans compute theirs themselves, from blocks.
LayoutWishes wishesOf(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls) {
  const auto inTiles = [](const KernelCall &call) {
    return call.kernel && call.name().starts_with("conv") && call.inputs[0].dtype == plan::BF16;
  };
  const bool tiles = multipliesTiles() && !plan.leaves() && std::ranges::any_of(calls, [&](const auto &program) {
                       return std::ranges::any_of(program, inTiles);
                     });
  return tiles ? channelsLast() : blocked(channelBlock(), maySmallBlocks(plan));
}

class CpuBackend final : public Backend {
public:
  CpuBackend() {
    registerKeptMatMul(fast_);
    registerOrderedMatMul(fast_);
    registerOrderedConv(fast_);
    registerOrderedWeightGrad(fast_);
    registerPairMatMul(fast_);
    registerOneDnnKernels(fast_);
    registerFusedKernels(fast_);
    registerVectorSoftmax(fast_);
    registerColumnSoftmax(fast_);
    registerTiledAttention(fast_);
    registerReferenceKernels(reference_);
  }
  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    if (options.widen)
      return HostPlan::load(plan, options, "cpu", [this](const KernelCall &call) { return reference_.bind(call); });
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(plan, options);
    if (!calls)
      return calls.status();
    std::vector<Layout> layouts = chooseLayouts(plan, *calls, wishesOf(plan, *calls));
    return HostPlan::load(
        plan, options, "cpu", [this](const KernelCall &c) { return bind(c); }, layouts, bindPair);
  }

private:
  static BindResult bindPair(const KernelCall &first, const KernelCall &loop, size_t input) {
    return first.name() == "conv" ? bindConvWithLoop(first, loop, input) : BindResult(std::unique_ptr<BoundKernel>());
  }

  BindResult bind(const KernelCall &call) const {
    BindResult bound = fast_.tryBind(call);
    if (bound && !*bound && mayWiden(call))
      bound = bindThroughF32(call, [this](const KernelCall &wide) { return fast_.tryBind(wide); });
    if (bound && !*bound)
      bound = reference_.tryBind(call);
    if (bound && *bound)
      return bound;
    if (!acceptsPlain(call))
      return bindReordered(call, [this](const KernelCall &plain) { return bind(plain); });
    return bound ? reference_.bind(call) : std::move(bound); // says what is not accepted
  }

  /// Whether F32 kernels may compute what there is no kernel for in 16 bits: F16 on most processors, and BF16 on those
  /// without instructions for it. In a reproducible plan a kernel must round sums between its parts where its result has
  /// 16 bits, which the reference kernels do; and what loops compute has its types in their expression.
  static bool mayWiden(const KernelCall &call) {
    const bool rounds = call.exact && bytesPerElement(call.outputs[0].dtype) == 2;
    return hasHalf(call) && !rounds && !call.kernel->has_expression();
  }

  KernelRegistry fast_, reference_;
};

} // namespace

std::unique_ptr<Backend> createCpuBackend() { return std::make_unique<CpuBackend>(); }

std::string cpuLibraries() {
  const DnnlVersion v = dnnlVersion();
  return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

} // namespace tessera::rt
