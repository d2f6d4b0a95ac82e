// gather, scatter_add, argmax.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/CudaKernel.h"
#include "runtime/backend/cuda/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

// One thread per element of the result; an index outside [0, EXTENT) after START gives zeros.
const char *const kGather = R"cuda(
extern "C" __global__ void k(const T *__restrict__ table, const I *__restrict__ indices, T *__restrict__ y) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < OUTER * INDICES * INNER;
       i += gridDim.x * (i64)blockDim.x) {
    const i64 inner = i % INNER, j = i / INNER % INDICES, o = i / INNER / INDICES;
    const i64 at = (i64)((u64)indices[j] - (u64)START);
    y[i] = at >= 0 && at < EXTENT && (i64)indices[j] >= START ? table[(o * EXTENT + at) * INNER + inner] : (T)0;
  }
}
)cuda";

// One block per index. The first block of an index adds up the rows of all later equal ones, in their order, so
// that no atomic operation is needed and the sum is that of a loop. `y` is zero before.
const char *const kScatterAdd = R"cuda(
extern "C" __global__ void k(const I *__restrict__ indices, const T *__restrict__ updates, T *__restrict__ y) {
  __shared__ int flags[256];
  const i64 j = blockIdx.x;
  const i64 mine = (i64)indices[j];
  const i64 at = (i64)((u64)mine - (u64)START);
  if (at < 0 || at >= EXTENT || mine < START)
    return; // the whole block
  const int t = (int)threadIdx.x;
  int earlier = 0;
  for (i64 p = t; p < j; p += 256)
    earlier |= (i64)indices[p] == mine;
  flags[t] = earlier;
  __syncthreads();
  for (int h = 128; h > 0; h >>= 1) {
    if (t < h)
      flags[t] |= flags[t + h];
    __syncthreads();
  }
  if (flags[0])
    return;
  for (i64 begin = j; begin < INDICES; begin += 256) {
    __syncthreads();
    flags[t] = begin + t < INDICES && (i64)indices[begin + t] == mine;
    __syncthreads();
    for (int f = 0; f < 256; ++f)
      if (flags[f])
        for (i64 i = t; i < OUTER * INNER; i += 256) {
          const i64 o = i / INNER, inner = i % INNER;
          const T x = updates[(o * INDICES + begin + f) * INNER + inner];
          T *to = y + (o * EXTENT + at) * INNER + inner;
          *to = ADD(*to, x);
        }
  }
}
)cuda";

// One block per line. The first NaN wins, then the largest, then the first of equals.
const char *const kArgMax = R"cuda(
__device__ inline bool better(T a, i64 i, T b, i64 j) {
  if (j < 0) return i >= 0;
  if (i < 0) return false;
  const bool an = a != a, bn = b != b;
  if (an != bn) return an;
  if (!an && a != b) return a > b;
  return i < j;
}
extern "C" __global__ void k(const T *__restrict__ x, i64 *__restrict__ y) {
  __shared__ T values[BLOCK];
  __shared__ i64 places[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 line = blockIdx.x; line < OUTER * INNER; line += gridDim.x) {
    const T *p = x + line / INNER * (EXTENT * INNER) + line % INNER;
    T best = (T)0;
    i64 place = -1;
    for (i64 i = t; i < EXTENT; i += BLOCK)
      if (better(p[i * INNER], i, best, place)) {
        best = p[i * INNER];
        place = i;
      }
    values[t] = best;
    places[t] = place;
    __syncthreads();
    for (int h = BLOCK / 2; h > 0; h >>= 1) {
      if (t < h && better(values[t + h], places[t + h], values[t], places[t])) {
        values[t] = values[t + h];
        places[t] = places[t + h];
      }
      __syncthreads();
    }
    if (t == 0)
      y[line] = places[0];
    __syncthreads();
  }
}
)cuda";

std::string addOf(plan::DType type) {
  switch (type) {
  case plan::F32:
  case plan::F64:
    return "((a) + (b))";
  default:
    return std::string("(") + memoryType(type) + ")((u64)(a) + (u64)(b))"; // wraps
  }
}

Constants constantsOf(const IndexGeometry &g) {
  return {
      {"OUTER", wide(g.outer)},
      {"EXTENT", wide(g.extent)},
      {"INNER", wide(g.inner)},
      {"INDICES", wide(g.indices)},
      {"START", g.start == INT64_MIN ? "(-9223372036854775807LL - 1)" : "(" + wide(g.start) + ")"}};
}

} // namespace

CudaKernel bindIndexing(const KernelCall &call) {
  CudaKernel kernel;
  kernel.description = "generated";
  const TensorView &y = call.outputs[0];
  if (call.name() == "argmax") {
    AxisGeometry g = *axisGeometry(call);
    const int64_t lines = g.outer * g.inner;
    if (lines == 0)
      return kernel;
    uint32_t block = 32;
    while (block < 256 && block < g.extent)
      block *= 2;
    kernel.actions.push_back(Launch{withConstants({{"OUTER", wide(g.outer)},
                                                   {"EXTENT", wide(g.extent)},
                                                   {"INNER", wide(g.inner)},
                                                   {"BLOCK", std::to_string(block)},
                                                   {"T", memoryType(call.inputs[0].dtype)}},
                                                  kArgMax),
                                    {static_cast<uint32_t>(std::min<int64_t>(lines, 65535)), 1, 1},
                                    block,
                                    {at(call.inputs[0].data), at(y.data)}});
    return kernel;
  }
  IndexGeometry g = *indexGeometry(call);
  Constants constants = constantsOf(g);
  const bool scatter = call.name() == "scatter_add";
  constants.push_back({"I", memoryType(call.inputs[scatter ? 0 : 1].dtype)});
  constants.push_back({"T", memoryType(y.dtype)});
  if (!scatter) {
    if (y.elements() > 0)
      kernel.actions.push_back(
          Launch{withConstants(constants, kGather),
                 {blocksFor(y.elements()), 1, 1},
                 256,
                 {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
    return kernel;
  }
  if (y.bytes() > 0)
    kernel.actions.push_back(FillBytes{at(y.data), y.bytes()});
  constants.push_back({"ADD(a, b)", addOf(y.dtype)});
  if (y.elements() > 0 && g.indices > 0)
    kernel.actions.push_back(
        Launch{withConstants(constants, kScatterAdd),
               {static_cast<uint32_t>(g.indices), 1, 1},
               256,
               {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
  return kernel;
}

} // namespace tessera::rt::cuda
