#include "runtime/backend/cpu/CpuBackend.h"
#include "runtime/backend/HostPlan.h"
#include "runtime/backend/Layouts.h"
#include "runtime/backend/cpu/Attention.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/Reordered.h"
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/fused/FusedKernel.h"
#include "runtime/backend/cpu/product/OrderedConv.h"
#include "runtime/backend/cpu/product/OrderedMatMul.h"
#include "runtime/backend/cpu/product/OrderedWeightGrad.h"
#include "runtime/backend/reference/ReferenceBackend.h"

namespace tessera::rt {
namespace {

/// Activations are blocked by channels, weights by output and input channels.
LayoutWishes blocked(int block) {
  LayoutWishes wishes;
  // oneDNN interleaves pairs of 16-bit weights. Layout cannot express that, so these weights are
  // reordered.
  wishes.wanted = [](plan::DType type, bool weight) { return type == plan::F32 || (type == plan::BF16 && !weight); };
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
    registerOrderedMatMul(registry_);
    registerOrderedConv(registry_);
    registerOrderedWeightGrad(registry_);
    registerOneDnnKernels(registry_);
    registerFusedKernels(registry_);
    registerVectorSoftmax(registry_);
    registerTiledAttention(registry_);
    registerReferenceKernels(registry_);
    registerReferenceKernels(wide_);
  }
  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    if (options.widen)
      return HostPlan::load(plan, options, "cpu", [this](const KernelCall &call) { return wide_.bind(call); });
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(plan, options);
    if (!calls)
      return calls.status();
    std::vector<Layout> layouts = chooseLayouts(plan, *calls, blocked(channelBlock()));
    return HostPlan::load(
        plan, options, "cpu", [this](const KernelCall &c) { return bind(c); }, layouts);
  }

private:
  BindResult bind(const KernelCall &call) const {
    BindResult bound = registry_.bind(call);
    if (bound || acceptsPlain(call))
      return bound;
    return bindReordered(call, [this](const KernelCall &plain) { return registry_.bind(plain); });
  }

  KernelRegistry registry_, wide_;
};

} // namespace

std::unique_ptr<Backend> createCpuBackend() { return std::make_unique<CpuBackend>(); }

std::string cpuLibraries() {
  const DnnlVersion v = dnnlVersion();
  return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

} // namespace tessera::rt
