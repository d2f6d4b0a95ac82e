// Convolutions and their gradients by cuDNN. Generated direct kernels do negative padding and what cuDNN refuses. They
// use one thread per result and are made to be right, not fast.
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/bind/Windows.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

namespace tessera::rt::cuda {
namespace {

int kindOf(const KernelCall &call) {
  return call.name() == "conv_input_grad" ? 1 : call.name() == "conv_weight_grad" ? 2 : 0;
}

CudaKernel direct(const KernelCall &call, const ConvGeometry &g) {
  CudaKernel kernel;
  kernel.description = "generated direct";
  Constants constants = {{"KIND", std::to_string(kindOf(call))},
                         {"T", memoryType(call.outputs[0].dtype)},
                         {"N", wide(g.n)},
                         {"GROUPS", wide(g.groups)},
                         {"C", wide(g.c)},
                         {"F", wide(g.f)}};
  addWindows(constants, g);
  const int64_t points = call.outputs[0].elements();
  if (points > 0)
    kernel.actions.push_back(Launch{withConstants(constants, kernels::kDirectConv),
                                    {blocksFor(points), 1, 1},
                                    256,
                                    {at(call.inputs[0].data), at(call.inputs[1].data), at(call.outputs[0].data)}});
  return kernel;
}

} // namespace

std::vector<CudaKernel> bindConv(const KernelCall &call, const BindOptions &options) {
  ConvGeometry g = *convGeometry(call);
  std::vector<CudaKernel> choices;
  TesseraConv what = {};
  what.kind = kindOf(call);
  what.dtype = call.inputs[0].dtype;
  what.resultType = call.outputs[0].dtype;
  what.tf32 = options.tf32 && what.dtype == plan::F32;
  what.n = g.n;
  what.groups = g.groups;
  what.channels = g.c * g.groups;
  what.filters = g.f * g.groups;
  const plan::DType type = call.inputs[0].dtype, result = call.outputs[0].dtype;
  bool fits = libraryTypes(type, result) && call.inputs[1].dtype == type;
  bool plain = true, last = true;
  for (const TensorView *t : {&call.inputs[0], &call.inputs[1], &call.outputs[0]}) {
    plain = plain && t->layout.plain();
    last = last && liesChannelsLast(*t);
  }
  what.channelsLast = !plain;
  fits = fits && (plain || last);
  setWindows(what, g);
  for (size_t d = 0; d < 3; ++d) {
    what.dilation[d] = g.dilation[d];
    fits = fits && g.padLo[d] >= 0 && g.padHi[d] >= 0;
  }
  int64_t work = g.n * g.c * g.f;
  for (const auto *sizes : {&g.in, &g.out, &g.kernel})
    for (int64_t s : *sizes)
      fits = fits && s > 0;
  if (fits && work > 0) {
    CudaKernel kernel;
    kernel.description = what.tf32 ? "cuDNN tf32" : "cuDNN " + dtypeName(type);
    kernel.description += what.channelsLast ? " channels last" : "";
    kernel.actions.push_back(
        LibraryConv{what, at(call.inputs[0].data), at(call.inputs[1].data), at(call.outputs[0].data)});
    choices.push_back(std::move(kernel));
  }
  if (plain && type == result && bytesPerElement(type) != 2)
    choices.push_back(direct(call, g));
  return choices;
}

} // namespace tessera::rt::cuda
