// max_pool, avg_pool and their gradients by generated kernels.
//
// cuDNN has pooling, but not the plan's. Of maxima it does not say which of several equal elements gets the gradient;
// it is known to begin with the smallest finite number, which is more than -infinity; and in version 9.2 maxima of
// large windows were wrong where there are millions of them (FluxML/NNlib.jl, issue 508). Of means version 9.19 ignores
// uneven padding where channels come last, and its gradient wants the input, too (both seen on an H100).
//
// The generated gradients are gathered: every input element looks at the windows that hold it, so that no atomic
// operation is needed. For max_pool a first kernel notes which tap each window chose.
//
// Tensors lie with channels first or last (LAST): the points of an array are counted as they lie in memory, and PLANE
// and PIXEL tell which plane and which of its points that is. Neighbouring channels are one point for maxima
// (Taps.cu). 16 bits are computed with as F32.
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/bind/Windows.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// Loops over at most so many taps or windows are written out.
constexpr int64_t kMostUnrolled = 32;

/// Whether all indices that kernels compute fit into 32 bits.
bool isNarrow(const PoolGeometry &g) {
  constexpr int64_t kMost = int64_t(1) << 30;
  int64_t in = g.planes, out = g.planes;
  for (size_t d = 0; d < 3; ++d) {
    in *= g.in[d];
    out *= g.out[d];
    for (const int64_t reach : {g.out[d] * g.stride[d], g.kernel[d] * g.dilation[d], std::abs(g.padLo[d])})
      if (reach >= kMost / 4)
        return false;
  }
  return in < kMost && out < kMost;
}

/// How many windows of an axis hold an element, at most.
int64_t windowsOf(const PoolGeometry &g, size_t d) {
  return std::min(g.out[d], (g.kernel[d] - 1) * g.dilation[d] / g.stride[d] + 1);
}

/// The most neighbouring channels, of all tensors of a call, that one access moves.
int64_t channelsAtOnce(const KernelCall &call, bool last) {
  int64_t side = last ? 16 / int64_t(bytesPerElement(call.outputs[0].dtype)) : 1;
  auto fits = [&](const TensorView &t) {
    const Place place = at(t.data);
    const auto bytes = uint64_t(side) * bytesPerElement(t.dtype);
    return t.shape[1] % side == 0 && place.value % bytes == 0 && place.perIndex % bytes == 0;
  };
  while (side > 1 && !(std::ranges::all_of(call.inputs, fits) && fits(call.outputs[0])))
    side /= 2;
  return side;
}

CudaKernel generated(const KernelCall &call, const PoolGeometry &g, bool last) {
  CudaKernel kernel;
  const plan::DType type = call.outputs[0].dtype;
  const bool half = type == plan::F16 || type == plan::BF16, maxima = call.name().starts_with("max"),
             narrow = isNarrow(g);
  kernel.description = last ? "generated channels last" : "generated";
  const int64_t side = maxima ? channelsAtOnce(call, last) : 1, taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const bool gradient = call.name().ends_with("_grad");
  const int64_t loops = gradient ? windowsOf(g, 0) * windowsOf(g, 1) * windowsOf(g, 2) : 0;
  Constants constants = {{"I", narrow ? "int" : "i64"},
                         {"PLANES", std::to_string(g.planes / side)},
                         {"INCLUDE_PAD", g.includePad ? "1" : "0"},
                         {"T", memoryType(type)},
                         {"V", half ? "float" : memoryType(type)},
                         {"LOAD(e)", half ? loadCode(type, "e") : "(e)"},
                         {"STORE(v)", half ? storeCode(type, "(v)") : "(T)(v)"},
                         {"LAST", last ? "1" : "0"},
                         {"CHANNELS", std::to_string(last ? call.inputs[0].shape[1] / side : 1)}};
  const std::string unroll = std::max(taps, loops) <= kMostUnrolled ? "unroll" : "unroll 1";
  const char *tap = taps < 256 ? "u8" : taps < 65536 ? "u16" : "i64";
  if (maxima)
    constants.insert(constants.end(),
                     {{"SIDE", std::to_string(side)}, {"TAP", tap}, {"LOOP", "_Pragma(\"" + unroll + "\")"}});
  for (size_t d = 0; d < 3; ++d)
    constants.push_back({"WINDOWS" + std::to_string(d), std::to_string(windowsOf(g, d))});
  if (narrow)
    addWindows(constants, g, [](int64_t v) { return std::to_string(v); });
  else
    addWindows(constants, g);
  const int64_t outs = g.planes * g.out[0] * g.out[1] * g.out[2];
  const int64_t points = call.outputs[0].elements();
  auto add = [&](const std::string &text, int64_t n, std::vector<Place> arguments) {
    const std::string body = kernels::kPoolWindow + text;
    kernel.actions.push_back(
        Launch{withConstants(constants, body.c_str()), {blocksFor(n), 1, 1}, 256, std::move(arguments)});
  };
  if (points == 0)
    return kernel;
  const Place y = at(call.outputs[0].data), a = at(call.inputs[0].data);
  const std::string text = kernels::kPoolTaps;
  if (call.name() == "max_pool") {
    add(text + kernels::kPoolMax, points / side, {a, y});
  } else if (call.name() == "avg_pool") {
    add(kernels::kPoolAvg, points, {a, y});
  } else if (call.name() == "avg_pool_grad") {
    add(kernels::kPoolAvgGrad, points, {a, y});
  } else if (outs == 0) {
    kernel.actions.emplace_back(FillBytes{y, call.outputs[0].bytes()});
  } else {
    const Place choices = kernel.reserve(uint64_t(outs) * (taps < 256 ? 1 : taps < 65536 ? 2 : 8));
    add(text + kernels::kPoolChoices, outs / side, {a, choices});
    add(text + kernels::kPoolMaxGrad, points / side, {choices, at(call.inputs[1].data), y});
  }
  return kernel;
}

} // namespace

CudaKernel bindPool(const KernelCall &call) {
  // A tensor of one point per plane counts as plain even beside operands with channels last.
  return generated(call, *poolGeometry(call), !call.inputs[0].layout.plain() || !call.outputs[0].layout.plain());
}

} // namespace tessera::rt::cuda
