// conv and its gradients: cuDNN, and own direct kernels for what it does not take: padding below zero, and what it
// refuses. The direct kernels take one thread per result and are meant to be right, not fast.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/text/Templates.h"

namespace tessera::rt::cuda {
namespace {

const char *const kDirect = R"cuda(
#define POINTS(i, n)                                                                               \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (i64)blockDim.x)
#define IN (IN0 * IN1 * IN2)
#define OUT (OUT0 * OUT1 * OUT2)
#define KERNEL (KERNEL0 * KERNEL1 * KERNEL2)
#if KIND == 0 // a = x, b = w
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  POINTS(p, N * GROUPS * F * OUT) {
    const i64 o = p % OUT, f = p / OUT % (GROUPS * F), n = p / OUT / (GROUPS * F), g = f / F;
    const i64 b0 = o / (OUT1 * OUT2) * STRIDE0 - PAD0, b1 = o / OUT2 % OUT1 * STRIDE1 - PAD1, b2 = o % OUT2 * STRIDE2 - PAD2;
    double sum = 0;
    for (i64 c = 0; c < C; ++c)
      for (i64 t = 0; t < KERNEL; ++t) {
        const i64 i0 = b0 + t / (KERNEL1 * KERNEL2) * DILATION0, i1 = b1 + t / KERNEL2 % KERNEL1 * DILATION1, i2 = b2 + t % KERNEL2 * DILATION2;
        if (i0 >= 0 && i0 < IN0 && i1 >= 0 && i1 < IN1 && i2 >= 0 && i2 < IN2)
          sum += (double)a[((n * GROUPS + g) * C + c) * IN + (i0 * IN1 + i1) * IN2 + i2] * (double)b[(f * C + c) * KERNEL + t];
      }
    y[p] = (T)sum;
  }
}
#elif KIND == 1 // a = dy, b = w
__device__ inline i64 output(i64 t, i64 stride, i64 n) { return t >= 0 && t % stride == 0 && t / stride < n ? t / stride : -1; }
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  POINTS(p, N * GROUPS * C * IN) {
    const i64 i = p % IN, gc = p / IN % (GROUPS * C), n = p / IN / (GROUPS * C), g = gc / C, c = gc % C;
    const i64 i0 = i / (IN1 * IN2) + PAD0, i1 = i / IN2 % IN1 + PAD1, i2 = i % IN2 + PAD2;
    double sum = 0;
    for (i64 t = 0; t < KERNEL; ++t) {
      const i64 j0 = output(i0 - t / (KERNEL1 * KERNEL2) * DILATION0, STRIDE0, OUT0);
      const i64 j1 = output(i1 - t / KERNEL2 % KERNEL1 * DILATION1, STRIDE1, OUT1);
      const i64 j2 = output(i2 - t % KERNEL2 * DILATION2, STRIDE2, OUT2);
      if (j0 < 0 || j1 < 0 || j2 < 0)
        continue;
      for (i64 f = 0; f < F; ++f)
        sum += (double)a[((n * GROUPS + g) * F + f) * OUT + (j0 * OUT1 + j1) * OUT2 + j2] * (double)b[((g * F + f) * C + c) * KERNEL + t];
    }
    y[p] = (T)sum;
  }
}
#else // a = x, b = dy
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  POINTS(p, GROUPS * F * C * KERNEL) {
    const i64 t = p % KERNEL, c = p / KERNEL % C, f = p / KERNEL / C, g = f / F;
    const i64 b0 = t / (KERNEL1 * KERNEL2) * DILATION0 - PAD0, b1 = t / KERNEL2 % KERNEL1 * DILATION1 - PAD1, b2 = t % KERNEL2 * DILATION2 - PAD2;
    double sum = 0;
    for (i64 n = 0; n < N; ++n)
      for (i64 o = 0; o < OUT; ++o) {
        const i64 i0 = b0 + o / (OUT1 * OUT2) * STRIDE0, i1 = b1 + o / OUT2 % OUT1 * STRIDE1, i2 = b2 + o % OUT2 * STRIDE2;
        if (i0 >= 0 && i0 < IN0 && i1 >= 0 && i1 < IN1 && i2 >= 0 && i2 < IN2)
          sum += (double)a[((n * GROUPS + g) * C + c) * IN + (i0 * IN1 + i1) * IN2 + i2] * (double)b[(n * GROUPS * F + f) * OUT + o];
      }
    y[p] = (T)sum;
  }
}
#endif
)cuda";

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
  for (size_t d = 0; d < 3; ++d) {
    const std::string n = std::to_string(d);
    constants.push_back({"IN" + n, wide(g.in[d])});
    constants.push_back({"OUT" + n, wide(g.out[d])});
    constants.push_back({"KERNEL" + n, wide(g.kernel[d])});
    constants.push_back({"STRIDE" + n, wide(g.stride[d])});
    constants.push_back({"PAD" + n, "(" + wide(g.padLo[d]) + ")"});
    constants.push_back({"DILATION" + n, wide(g.dilation[d])});
  }
  const int64_t points = call.outputs[0].elements();
  if (points > 0)
    kernel.actions.push_back(Launch{withConstants(constants, kDirect),
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
  what.spatial = g.spatial == 3 ? 3 : 2; // one dimension is two with a leading 1
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
  for (size_t d = 0; d < 3; ++d) {
    what.in[d] = g.in[d];
    what.out[d] = g.out[d];
    what.kernel[d] = g.kernel[d];
    what.stride[d] = g.stride[d];
    what.padLow[d] = g.padLo[d];
    what.padHigh[d] = g.padHi[d];
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
