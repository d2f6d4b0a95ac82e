// max_pool, avg_pool and their gradients: means go to cuDNN, with own kernels for what it does not take.
//
// Maxima do not: cuDNN does not say which of several equal elements gets the gradient; it is known to begin with the
// smallest finite number, which is more than -infinity; and in version 9.2 maxima of large windows were wrong where
// there are millions of them (FluxML/NNlib.jl, issue 508).
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

#include <optional>

namespace tessera::rt::cuda {
namespace {

/// Windows of up to kMostTaps elements go to cuDNN.
constexpr int64_t kMostTaps = 64;

/// The library's pooling; nothing where cuDNN's pooling differs from the plan's or does not exist.
std::optional<CudaKernel> library(const KernelCall &call, const PoolGeometry &g, bool last) {
  const plan::DType type = call.outputs[0].dtype;
  if (call.name().starts_with("max") || type == plan::F64 || g.planes == 0 ||
      g.kernel[0] * g.kernel[1] * g.kernel[2] > kMostTaps)
    return std::nullopt;
  const Shape &x = call.inputs[0].shape;
  TesseraPool what = {};
  what.gradient = call.name() == "avg_pool_grad";
  what.dtype = type;
  what.includePadding = g.includePad;
  what.channelsLast = last;
  what.n = x[0];
  what.channels = x[1];
  setWindows(what, g);
  for (size_t d = 0; d < 3; ++d) {
    // For a window that lies in padding alone, the plan's result differs from cuDNN's.
    if (g.padLo[d] < 0 || g.padHi[d] < 0 || g.in[d] < 1 || g.out[d] < 1 || g.padLo[d] >= g.kernel[d] ||
        (g.out[d] - 1) * g.stride[d] - g.padLo[d] >= g.in[d])
      return std::nullopt;
  }
  CudaKernel kernel;
  kernel.description = "cuDNN " + dtypeName(type) + (last ? " channels last" : "");
  kernel.actions.push_back(LibraryPool{what, at(call.inputs[0].data), at(call.outputs[0].data)});
  return kernel;
}

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
  const PoolGeometry g = *poolGeometry(call);
  // A tensor of one point per plane counts as plain even beside operands with channels last.
  const bool last = !call.inputs[0].layout.plain() || !call.outputs[0].layout.plain();
  std::vector<CudaKernel> choices;
  if (std::optional<CudaKernel> kernel = library(call, g, last))
    choices.push_back(std::move(*kernel));
  choices.push_back(generated(call, g, last));
  return choices;
}

} // namespace tessera::rt::cuda
