// max_pool, avg_pool and their gradients: means go to cuDNN, with own kernels for what it does not take.
//
// Maxima do not: cuDNN does not say which of several equal elements gets the gradient; it is known to begin with the smallest
// finite number, which is more than -infinity; and in version 9.2 maxima of large windows were wrong where there are millions
// of them (FluxML/NNlib.jl, issue 508).
//
// The generated gradients are gathered: every input element looks at the windows that hold it, so that no atomic operation
// is needed. For max_pool a first kernel notes which element each window chose.
//
// Tensors lie with channels first or last (LAST): the points of an array are counted as they lie in memory, and PLANE and
// PIXEL tell which plane and which of its points that is. 16 bits are computed with as F32.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <optional>

namespace tessera::rt::cuda {
namespace {

// Window o of a plane begins at base and has the taps [begin, end) inside the plane.
const char *const kWindow = R"cuda(
struct Window { i64 base[3], begin[3], end[3]; };
__device__ inline void axis(Window &w, int d, i64 position, i64 stride, i64 pad, i64 dilation, i64 in, i64 kernel) {
  const i64 base = position * stride - pad;
  w.base[d] = base;
  w.begin[d] = base >= 0 ? 0 : (-base - 1) / dilation + 1;
  i64 end = base >= in ? 0 : (in - 1 - base) / dilation + 1;
  end = end < kernel ? end : kernel;
  w.end[d] = end > w.begin[d] ? end : w.begin[d];
}
__device__ inline Window window(i64 o) {
  Window w;
  axis(w, 0, o / (OUT1 * OUT2), STRIDE0, PAD0, DILATION0, IN0, KERNEL0);
  axis(w, 1, o / OUT2 % OUT1, STRIDE1, PAD1, DILATION1, IN1, KERNEL1);
  axis(w, 2, o % OUT2, STRIDE2, PAD2, DILATION2, IN2, KERNEL2);
  return w;
}
#define VISIT(w, i)                                                                                \
  for (i64 r0 = w.begin[0]; r0 < w.end[0]; ++r0)                                                   \
    for (i64 r1 = w.begin[1]; r1 < w.end[1]; ++r1)                                                 \
      for (i64 r2 = w.begin[2], i = ((w.base[0] + r0 * DILATION0) * IN1 + w.base[1] + r1 * DILATION1) * IN2 + \
                                    w.base[2] + r2 * DILATION2;                                    \
           r2 < w.end[2]; ++r2, i += DILATION2)
#define INSIDE(w) ((w.end[0] - w.begin[0]) * (w.end[1] - w.begin[1]) * (w.end[2] - w.begin[2]))
#define POINTS(i, n)                                                                               \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (i64)blockDim.x)
#define OUT (OUT0 * OUT1 * OUT2)
#define IN (IN0 * IN1 * IN2)
#if LAST
#define PLANE(p, n) ((p) / ((n) * CHANNELS) * CHANNELS + (p) % CHANNELS)
#define PIXEL(p, n) ((p) / CHANNELS % (n))
#define INDEX(plane, i, n) (((plane) / CHANNELS * (n) + (i)) * CHANNELS + (plane) % CHANNELS)
#else
#define PLANE(p, n) ((p) / (n))
#define PIXEL(p, n) ((p) % (n))
#define INDEX(plane, i, n) ((plane) * (n) + (i))
#endif
// The first maximum of a window, the first NaN where there is one; -1 if the window is empty.
__device__ inline i64 chosen(const T *x, i64 plane, i64 o) {
  const Window w = window(o);
  i64 best = -1;
  V most = 0;
  VISIT(w, i) {
    const V v = LOAD(x[INDEX(plane, i, IN)]);
    if (best < 0 || v > most || (v != v && most == most)) {
      best = i;
      most = v;
    }
  }
  return best;
}
// Windows [first, last] along one axis that hold input index i at some tap, whether or not the dilation hits it.
__device__ inline i64 first_window(i64 i, i64 stride, i64 pad, i64 dilation, i64 kernel) {
  const i64 t = i + pad - dilation * (kernel - 1);
  return t <= 0 ? 0 : (t + stride - 1) / stride;
}
__device__ inline i64 last_window(i64 i, i64 stride, i64 pad, i64 out) {
  const i64 t = i + pad;
  if (t < 0)
    return -1;
  return t / stride < out - 1 ? t / stride : out - 1;
}
__device__ inline bool hit(i64 i, i64 o, i64 stride, i64 pad, i64 dilation) {
  return (i + pad - o * stride) % dilation == 0;
}
// All windows o of a plane that hold input element i, in ascending order.
#define WINDOWS_OF(i, o)                                                                           \
  const i64 i0 = (i) / (IN1 * IN2), i1 = (i) / IN2 % IN1, i2 = (i) % IN2;                          \
  for (i64 o0 = first_window(i0, STRIDE0, PAD0, DILATION0, KERNEL0); o0 <= last_window(i0, STRIDE0, PAD0, OUT0); ++o0) \
    if (hit(i0, o0, STRIDE0, PAD0, DILATION0))                                                     \
      for (i64 o1 = first_window(i1, STRIDE1, PAD1, DILATION1, KERNEL1); o1 <= last_window(i1, STRIDE1, PAD1, OUT1); ++o1) \
        if (hit(i1, o1, STRIDE1, PAD1, DILATION1))                                                 \
          for (i64 o2 = first_window(i2, STRIDE2, PAD2, DILATION2, KERNEL2), o;                    \
               o2 <= last_window(i2, STRIDE2, PAD2, OUT2) && (o = (o0 * OUT1 + o1) * OUT2 + o2, true); ++o2) \
            if (hit(i2, o2, STRIDE2, PAD2, DILATION2))
)cuda";

const char *const kMax = R"cuda(
extern "C" __global__ void k(const T *__restrict__ x, T *__restrict__ y) {
  POINTS(p, PLANES * OUT) {
    const i64 plane = PLANE(p, OUT), i = chosen(x, plane, PIXEL(p, OUT));
    y[p] = STORE(i < 0 ? (V)__longlong_as_double((i64)0xfff0000000000000ull) : LOAD(x[INDEX(plane, i, IN)]));
  }
}
)cuda";
const char *const kChoices = R"cuda(
extern "C" __global__ void k(const T *__restrict__ x, i64 *__restrict__ choices) {
  POINTS(p, PLANES * OUT) choices[p] = chosen(x, PLANE(p, OUT), PIXEL(p, OUT));
}
)cuda";
const char *const kMaxGrad = R"cuda(
extern "C" __global__ void k(const i64 *__restrict__ choices, const T *__restrict__ dy, T *__restrict__ dx) {
  POINTS(p, PLANES * IN) {
    const i64 plane = PLANE(p, IN), i = PIXEL(p, IN);
    V sum = 0;
    WINDOWS_OF(i, o)
      if (choices[INDEX(plane, o, OUT)] == i)
        sum += LOAD(dy[INDEX(plane, o, OUT)]);
    dx[p] = STORE(sum);
  }
}
)cuda";
const char *const kAvg = R"cuda(
extern "C" __global__ void k(const T *__restrict__ x, T *__restrict__ y) {
  POINTS(p, PLANES * OUT) {
    const i64 plane = PLANE(p, OUT);
    const Window w = window(PIXEL(p, OUT));
    double sum = 0;
    VISIT(w, i) sum += (double)LOAD(x[INDEX(plane, i, IN)]);
    const i64 n = INSIDE(w);
    y[p] = STORE(n == 0 ? (V)0 : (V)(sum / (double)(INCLUDE_PAD ? KERNEL0 * KERNEL1 * KERNEL2 : n)));
  }
}
)cuda";
const char *const kAvgGrad = R"cuda(
extern "C" __global__ void k(const T *__restrict__ dy, T *__restrict__ dx) {
  POINTS(p, PLANES * IN) {
    const i64 plane = PLANE(p, IN), i = PIXEL(p, IN);
    V sum = 0;
    WINDOWS_OF(i, o) {
      const Window w = window(o);
      sum += (V)((double)LOAD(dy[INDEX(plane, o, OUT)]) / (double)(INCLUDE_PAD ? KERNEL0 * KERNEL1 * KERNEL2 : INSIDE(w)));
    }
    dx[p] = STORE(sum);
  }
}
)cuda";

/// Windows that go to cuDNN have so many elements.
constexpr int64_t kMostTaps = 64;

/// Nothing where cuDNN's pooling is another, or none.
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
  what.spatial = g.spatial == 3 ? 3 : 2; // one dimension is two with a leading 1
  what.channelsLast = last;
  what.n = x[0];
  what.channels = x[1];
  for (size_t d = 0; d < 3; ++d) {
    what.in[d] = g.in[d];
    what.out[d] = g.out[d];
    what.kernel[d] = g.kernel[d];
    what.stride[d] = g.stride[d];
    what.padLow[d] = g.padLo[d];
    what.padHigh[d] = g.padHi[d];
    // Of a window in padding alone the plan has its own idea.
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
  for (size_t d = 0; d < 3; ++d) {
    const std::string n = std::to_string(d);
    constants.push_back({"IN" + n, wide(g.in[d])});
    constants.push_back({"OUT" + n, wide(g.out[d])});
    constants.push_back({"KERNEL" + n, wide(g.kernel[d])});
    constants.push_back({"STRIDE" + n, wide(g.stride[d])});
    constants.push_back({"PAD" + n, "(" + wide(g.padLo[d]) + ")"});
    constants.push_back({"DILATION" + n, wide(g.dilation[d])});
  }
  const int64_t outs = g.planes * g.out[0] * g.out[1] * g.out[2];
  const int64_t points = call.outputs[0].elements();
  auto add = [&](const char *text, int64_t n, std::vector<Place> arguments) {
    const std::string body = std::string(kWindow) + text;
    kernel.actions.push_back(Launch{withConstants(constants, body.c_str()), {blocksFor(n), 1, 1}, 256, arguments});
  };
  if (points == 0)
    return kernel;
  const Place y = at(call.outputs[0].data), a = at(call.inputs[0].data);
  if (call.name() == "max_pool") {
    add(kMax, points, {a, y});
  } else if (call.name() == "avg_pool") {
    add(kAvg, points, {a, y});
  } else if (call.name() == "avg_pool_grad") {
    add(kAvgGrad, points, {a, y});
  } else {
    const Place choices = kernel.reserve(static_cast<uint64_t>(outs) * 8);
    if (outs > 0)
      add(kChoices, outs, {a, choices});
    add(kMaxGrad, points, {choices, at(call.inputs[1].data), y});
  }
  return kernel;
}

} // namespace

std::vector<CudaKernel> bindPool(const KernelCall &call) {
  const PoolGeometry g = *poolGeometry(call);
  // What has one point lies plain beside operands that do not.
  const bool last = !call.inputs[0].layout.plain() || !call.outputs[0].layout.plain();
  std::vector<CudaKernel> choices;
  if (std::optional<CudaKernel> kernel = library(call, g, last))
    choices.push_back(std::move(*kernel));
  choices.push_back(generated(call, g, last));
  return choices;
}

} // namespace tessera::rt::cuda
