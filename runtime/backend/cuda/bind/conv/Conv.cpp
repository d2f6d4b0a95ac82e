// Convolutions and their gradients by cuDNN, and by cuBLASLt where they are products of matrices or become some.
// Generated direct kernels do negative padding and what cuDNN refuses. They use one thread per result and are made to
// be right, not fast.
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/Copies.h"
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/bind/Windows.h"
#include "runtime/backend/cuda/bind/conv/UnfoldedConv.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>
#include <numeric>
#include <optional>

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
  addLeaves(constants, call, g.leaves);
  const int64_t points = call.outputs[0].elements();
  if (points > 0)
    kernel.actions.push_back(
        Launch{withConstants(constants, (std::string(kernels::kLeaves) + kernels::kDirectConv).c_str()),
               {blocksFor(points), 1, 1},
               256,
               {at(call.inputs[0].data), at(call.inputs[1].data), at(call.outputs[0].data)}});
  return kernel;
}

/// A copy of x in scratch memory that holds the zeros which one side of a dimension has more than the other. Makes the
/// padding of `g` even. cuDNN's gradients of filters are wrong where it is uneven (9.19 on an H100, F32 and 16 bits).
Place withEvenPadding(const TensorView &x, WindowGeometry &g, CudaKernel &kernel) {
  TensorView padded = x;
  Shape first(x.shape.size(), 0); // where x begins
  for (size_t d = 0; d < g.spatial; ++d) {
    int64_t &low = g.padLo[3 - g.spatial + d], &high = g.padHi[3 - g.spatial + d];
    const int64_t even = std::min(low, high);
    first[2 + d] = low - even;
    padded.shape[2 + d] += low + high - 2 * even;
    g.in[3 - g.spatial + d] = padded.shape[2 + d];
    low = high = even;
  }
  const Place place = kernel.reserve(padded.bytes());
  kernel.actions.emplace_back(FillBytes{place, padded.bytes()});
  const Shape strides = memoryStrides(padded);
  const int64_t offset = std::inner_product(first.begin(), first.end(), strides.begin(), int64_t(0));
  Place inside = place;
  inside.value += uint64_t(offset) * bytesPerElement(x.dtype);
  kernel.actions.push_back(launchLoop(stridedCopy(copyBetween(x, padded)), x.elements(), {at(x.data), inside}));
  return place;
}

bool isOnePoint(const ConvGeometry &g) {
  return g.in == std::array<int64_t, 3>{1, 1, 1} && g.out == g.in && g.kernel == g.in;
}

/// Windows of one point that step over every point, in tensors with channels last, are a product of matrices: of points
/// and channels, or of filters and channels. Where its sum is over the points, as in a filter's gradient, the library
/// for products cuts it into parts, and has more kernels with results in F32.
std::optional<CudaKernel> product(const KernelCall &call, const ConvGeometry &g, const TesseraConv &conv) {
  for (size_t d = 0; d < 3; ++d)
    if (g.kernel[d] != 1 || (g.stride[d] != 1 && g.in[d] != 1) || g.padLo[d] != 0 || g.padHi[d] != 0)
      return std::nullopt;
  if ((!conv.channelsLast && !isOnePoint(g)) || g.groups != 1)
    return std::nullopt;
  const int64_t points = g.n * g.in[0] * g.in[1] * g.in[2];
  const bool ofFilter = conv.kind == 2;
  TesseraMatMul what = {};
  what.dtype = conv.dtype;
  what.resultType = conv.resultType;
  what.tf32 = conv.tf32;
  what.transposeA = ofFilter;
  what.transposeB = conv.kind == 0;
  what.m = ofFilter ? g.f : points;
  what.n = conv.kind == 0 ? g.f : g.c;
  what.k = ofFilter ? points : conv.kind == 0 ? g.c : g.f;
  what.ldA = ofFilter ? what.m : what.k;
  what.ldB = conv.kind == 0 ? what.k : what.n;
  what.ldY = what.n;
  what.batch = 1;
  const TensorView &a = call.inputs[ofFilter ? 1 : 0], &b = call.inputs[ofFilter ? 0 : 1];
  LibraryMatMul action{what, at(a.data), at(b.data), at(call.outputs[0].data)};
  action.what.alignment = alignmentOf({action.a, action.b, action.y});
  CudaKernel kernel;
  kernel.description = std::string("cuBLASLt ") + (conv.tf32 ? "tf32" : dtypeName(a.dtype)) + " channels last";
  kernel.actions.emplace_back(action);
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
  // How libraries add may follow from any of the sizes.
  bool fits = !call.exact && libraryTypes(type, result) && call.inputs[1].dtype == type;
  bool plain = true, last = true;
  for (const TensorView *t : {&call.inputs[0], &call.inputs[1], &call.outputs[0]}) {
    plain = plain && t->layout.plain();
    last = last && liesChannelsLast(*t);
  }
  what.channelsLast = !plain;
  fits = fits && (plain || last);
  for (size_t d = 0; d < 3; ++d)
    fits = fits && g.padLo[d] >= 0 && g.padHi[d] >= 0;
  int64_t work = g.n * g.c * g.f;
  for (const auto *sizes : {&g.in, &g.out, &g.kernel})
    for (int64_t s : *sizes)
      fits = fits && s > 0;
  // cuDNN 9.19 makes the F32 gradient of a filter of 16 bits by an engine that is wrong unless a point's channels fill
  // 16 bytes, and convolutions of single points, whose layout is any, by one that is wrong for few channels. Both were
  // seen on an H100.
  const bool wrong = isOnePoint(g) ? g.groups == 1 : what.kind == 2 && type != result && (g.c % 8 != 0 || g.f % 8 != 0);
  if (fits && work > 0) {
    // The convolution of an input's gradient can add to what is there (AddingConvs.h), and a product cannot.
    if (what.kind != 1 || isOnePoint(g))
      if (std::optional<CudaKernel> matrices = product(call, g, what))
        choices.push_back(std::move(*matrices));
    if (last)
      if (std::optional<CudaKernel> unfolded = bindUnfolded(call, g))
        choices.push_back(std::move(*unfolded));
  }
  if (fits && work > 0 && !wrong) {
    CudaKernel kernel;
    kernel.description = what.tf32 ? "cuDNN tf32" : "cuDNN " + dtypeName(type);
    kernel.description += what.channelsLast ? " channels last" : "";
    Place a = at(call.inputs[0].data);
    WindowGeometry windows = g;
    if (what.kind == 2 && g.padLo != g.padHi) {
      kernel.description += ", padded by a copy";
      a = withEvenPadding(call.inputs[0], windows, kernel);
    }
    setWindows(what, windows);
    for (size_t d = 0; d < 3; ++d)
      what.dilation[d] = g.dilation[d];
    kernel.actions.push_back(LibraryConv{what, a, at(call.inputs[1].data), at(call.outputs[0].data)});
    choices.push_back(std::move(kernel));
  }
  if (plain && type == result && bytesPerElement(type) != 2)
    choices.push_back(direct(call, g));
  return choices;
}

} // namespace tessera::rt::cuda
