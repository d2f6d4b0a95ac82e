// max_pool, avg_pool and their gradients by generated kernels.
//
// cuDNN has pooling, but not the plan's. Of maxima it does not say which of several equal elements gets the gradient;
// it is known to begin with the smallest finite number, which is more than -infinity; and in version 9.2 maxima of
// large windows were wrong where there are millions of them (FluxML/NNlib.jl, issue 508). Of means version 9.19 ignores
// uneven padding where channels come last, and its gradient wants the input, too (both seen on an H100).
//
// The generated gradients are gathered: every input element looks at the windows that hold it, so that no atomic
// operation is needed. For max_pool a first kernel notes which element each window chose.
//
// Tensors lie with channels first or last (LAST): the points of an array are counted as they lie in memory, and PLANE
// and PIXEL tell which plane and which of its points that is. 16 bits are computed with as F32.
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/bind/Windows.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

namespace tessera::rt::cuda {
namespace {

CudaKernel generated(const KernelCall &call, const PoolGeometry &g, bool last) {
  CudaKernel kernel;
  const plan::DType type = call.outputs[0].dtype;
  const bool half = type == plan::F16 || type == plan::BF16;
  kernel.description = last ? "generated channels last" : "generated";
  Constants constants = {{"PLANES", wide(g.planes)},
                         {"INCLUDE_PAD", g.includePad ? "1" : "0"},
                         {"T", memoryType(type)},
                         {"V", half ? "float" : memoryType(type)},
                         {"LOAD(e)", half ? loadCode(type, "e") : "(e)"},
                         {"STORE(v)", half ? storeCode(type, "(v)") : "(T)(v)"},
                         {"LAST", last ? "1" : "0"},
                         {"CHANNELS", wide(last ? call.inputs[0].shape[1] : 1)}};
  addWindows(constants, g);
  const int64_t outs = g.planes * g.out[0] * g.out[1] * g.out[2];
  const int64_t points = call.outputs[0].elements();
  auto add = [&](const char *text, int64_t n, std::vector<Place> arguments) {
    const std::string body = std::string(kernels::kPoolWindow) + text;
    kernel.actions.push_back(
        Launch{withConstants(constants, body.c_str()), {blocksFor(n), 1, 1}, 256, std::move(arguments)});
  };
  if (points == 0)
    return kernel;
  const Place y = at(call.outputs[0].data), a = at(call.inputs[0].data);
  if (call.name() == "max_pool") {
    add(kernels::kPoolMax, points, {a, y});
  } else if (call.name() == "avg_pool") {
    add(kernels::kPoolAvg, points, {a, y});
  } else if (call.name() == "avg_pool_grad") {
    add(kernels::kPoolAvgGrad, points, {a, y});
  } else {
    const Place choices = kernel.reserve(uint64_t(outs) * 8);
    if (outs > 0)
      add(kernels::kPoolChoices, outs, {a, choices});
    add(kernels::kPoolMaxGrad, points, {choices, at(call.inputs[1].data), y});
  }
  return kernel;
}

} // namespace

std::vector<CudaKernel> bindPool(const KernelCall &call) {
  // A tensor of one point per plane counts as plain even beside operands with channels last.
  return {generated(call, *poolGeometry(call), !call.inputs[0].layout.plain() || !call.outputs[0].layout.plain())};
}

} // namespace tessera::rt::cuda
