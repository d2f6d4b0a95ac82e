// Pooling. max_pool_grad has x but not the positions of the maxima: it runs the forward pass again, into
// scratch, for oneDNN's workspace. Its maxima pass over NaN, and begin with the smallest finite number: where there are
// numbers that are not finite, the reference kernel computes them.
#include "runtime/backend/Finite.h"
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/Reordered.h"
#include "runtime/backend/reference/ReferenceBackend.h"

namespace tessera::rt {
namespace {

using dnnl::memory;

/// oneDNN does not support windows that lie entirely in the padding.
bool everyWindowMeetsInput(const PoolGeometry &g) {
  for (size_t d = 0; d < 3; ++d) {
    int64_t reach = g.dilation[d] * (g.kernel[d] - 1);
    int64_t last = (g.out[d] - 1) * g.stride[d] - g.padLo[d];
    if (g.padLo[d] < 0 || g.padHi[d] < 0 || g.padLo[d] > reach || last >= g.in[d] ||
        (g.dilation[d] > 1 && (g.padLo[d] > 0 || g.padHi[d] > 0)))
      return false;
  }
  return true;
}

/// Runs a kernel for finite maxima, and the reference kernel where the first input has a number that is not finite. The
/// latter is rare, so its time and memory do not matter.
class FiniteMaxima final : public BoundKernel {
public:
  FiniteMaxima(std::unique_ptr<BoundKernel> finite, KernelCall call)
      : finite_(std::move(finite)), call_(std::move(call)) {}
  size_t scratchBytes() const override { return finite_->scratchBytes(); }
  std::string describe() const override { return finite_->describe(); }

  Status run(std::byte *scratch) override {
    const TensorView &x = call_.inputs[0];
    if (!nonFinite(x.data, x.dtype, size_t(x.elements()), call_.threads))
      return finite_->run(scratch);
    static const KernelRegistry reference = [] {
      KernelRegistry registry;
      registerReferencePool(registry);
      return registry;
    }();
    BindResult kernel = bindReordered(call_, [](const KernelCall &plain) { return reference.bind(plain); });
    if (!kernel)
      return kernel.status();
    size_t room = (*kernel)->scratchBytes() + 64;
    std::vector<std::byte> memory(room);
    void *aligned = memory.data();
    std::align(64, room - 64, aligned, room);
    return (*kernel)->run(static_cast<std::byte *>(aligned));
  }

private:
  std::unique_ptr<BoundKernel> finite_;
  KernelCall call_;
};

bool acceptsPool(const KernelCall &call) {
  if (!acceptsDnnl(call) || !everyWindowMeetsInput(*poolGeometry(call)))
    return false;
  const Layout &layout = call.inputs[0].layout;
  if (layout.inner.size() > 1)
    return false;
  for (const auto *list : {&call.inputs, &call.outputs})
    for (const TensorView &t : *list)
      if (!(t.layout == layout))
        return false;
  return true;
}

BindResult bindPool(const KernelCall &call) {
  PoolGeometry g = *poolGeometry(call);
  useThreads(call.threads);
  bool maximum = call.name().starts_with("max_pool");
  bool grad = call.name().find("_grad") != std::string::npos;
  auto algorithm = maximum        ? dnnl::algorithm::pooling_max
                   : g.includePad ? dnnl::algorithm::pooling_avg_include_padding
                                  : dnnl::algorithm::pooling_avg_exclude_padding;
  const TensorView &x = grad ? call.outputs[0] : call.inputs[0];
  const TensorView &y = !grad ? call.outputs[0] : call.inputs[maximum ? 1 : 0];
  memory::dims strides, kernelSize, dilations, padLo, padHi;
  for (size_t d = 3 - g.spatial; d < 3; ++d) {
    strides.push_back(g.stride[d]);
    kernelSize.push_back(g.kernel[d]);
    dilations.push_back(g.dilation[d] - 1);
    padLo.push_back(g.padLo[d]);
    padHi.push_back(g.padHi[d]);
  }
  memory::desc xd = describeView(x), yd = describeView(y);
  auto none = [] { return BindResult(std::unique_ptr<BoundKernel>()); };
  auto done = [&](std::unique_ptr<BoundKernel> kernel) {
    if (maximum)
      kernel = std::make_unique<FiniteMaxima>(std::move(kernel), call);
    return BindResult(std::move(kernel));
  };
  try {
    auto kind = maximum && grad ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const auto forward = describePrimitive<DnnlPooling>(grad ? dnnl::prop_kind::forward_training : kind, algorithm, xd,
                                                        yd, strides, kernelSize, dilations, padLo, padHi);
    if (!forward || !isFast(forward.impl_info_str()))
      return none();
    auto kernel = std::make_unique<DnnlKernel>(call.threads);
    if (!grad) {
      kernel->operand(DNNL_ARG_SRC, x, xd, xd);
      kernel->operand(DNNL_ARG_DST, y, yd, yd, true);
      kernel->stage(DnnlPooling(forward), forward.scratchpad_desc(),
                    {{DNNL_ARG_SRC, DNNL_ARG_SRC}, {DNNL_ARG_DST, DNNL_ARG_DST}});
      kernel->finish(forward.impl_info_str());
      return done(std::move(kernel));
    }
    const auto backward =
        describeGradient<DnnlPoolingGradient>(forward, algorithm, xd, yd, strides, kernelSize, dilations, padLo, padHi);
    if (!backward || !isFast(backward.impl_info_str()))
      return none();
    std::vector<std::pair<int, int>> arguments = {{DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_DST},
                                                  {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_SRC}};
    kernel->operand(DNNL_ARG_DIFF_DST, y, yd, yd);
    kernel->operand(DNNL_ARG_DIFF_SRC, x, xd, xd, true);
    if (maximum) {
      kernel->operand(DNNL_ARG_SRC, call.inputs[0], xd, xd);
      kernel->temporary(DNNL_ARG_DST, yd);
      kernel->temporary(DNNL_ARG_WORKSPACE, forward.workspace_desc());
      kernel->stage(
          DnnlPooling(forward), forward.scratchpad_desc(),
          {{DNNL_ARG_SRC, DNNL_ARG_SRC}, {DNNL_ARG_DST, DNNL_ARG_DST}, {DNNL_ARG_WORKSPACE, DNNL_ARG_WORKSPACE}});
      arguments.push_back({DNNL_ARG_WORKSPACE, DNNL_ARG_WORKSPACE});
    }
    kernel->stage(DnnlPoolingGradient(backward), backward.scratchpad_desc(), arguments);
    kernel->finish(backward.impl_info_str());
    return done(std::move(kernel));
  } catch (const dnnl::error &) {
    return none();
  }
}

} // namespace

void registerOneDnnPool(KernelRegistry &registry) {
  for (const char *name : {"max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad"})
    registry.add(name, {"oneDNN", acceptsPool, bindPool});
}

} // namespace tessera::rt
