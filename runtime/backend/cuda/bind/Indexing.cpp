// gather, scatter_add, argmax, topk.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

// One thread per element of the result; an index outside [0, EXTENT) after START gives zeros.
const char *const kGather = R"cuda(
extern "C" __global__ void k(const T *__restrict__ table, const I *__restrict__ indices, T *__restrict__ y) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < BATCH * OUTER * INDICES * INNER;
       i += gridDim.x * (i64)blockDim.x) {
    const i64 inner = i % INNER, j = i / INNER % INDICES, o = i / INNER / INDICES;
    const i64 index = (i64)indices[o / OUTER * INDICES + j], at = (i64)((u64)index - (u64)START);
    y[i] = at >= 0 && at < EXTENT && index >= START ? table[(o * EXTENT + at) * INNER + inner] : (T)0;
  }
}
)cuda";

// One block per index. The first block of an index adds up the rows of all later equal ones, in their order, so
// that no atomic operation is needed and the sum is that of a loop. `y` is zero before.
const char *const kScatterAdd = R"cuda(
extern "C" __global__ void k(const I *__restrict__ indices, const T *__restrict__ updates, T *__restrict__ y) {
  __shared__ int flags[256];
  const i64 j = blockIdx.x % INDICES, batch = blockIdx.x / INDICES;
  indices += batch * INDICES;
  updates += batch * (OUTER * INDICES * INNER);
  y += batch * (OUTER * EXTENT * INNER);
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

// One block per line, one round per result: the first in order of those that come after the last one. The order
// is total: larger ones first (NaN largest), or smaller ones, and of equals the one with the lower index.
const char *const kTopK = R"cuda(
__device__ inline bool larger(T a, T b) { return a > b || (a != a && b == b); }
__device__ inline bool before(T a, i64 i, T b, i64 j) {
  if (larger(a, b)) return !SMALLEST;
  if (larger(b, a)) return SMALLEST;
  return i < j;
}
extern "C" __global__ void k(const T *__restrict__ x, i64 *__restrict__ y) {
  __shared__ T values[BLOCK];
  __shared__ i64 places[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 line = blockIdx.x; line < OUTER * INNER; line += gridDim.x) {
    const i64 outer = line / INNER, inner = line % INNER;
    const T *p = x + outer * (EXTENT * INNER) + inner;
    i64 last = -1;
    T last_value = (T)0;
    for (i64 round = 0; round < K; ++round) {
      T best = (T)0;
      i64 place = -1;
      for (i64 i = t; i < EXTENT; i += BLOCK) {
        const T v = p[i * INNER];
        if ((last < 0 || before(last_value, last, v, i)) && (place < 0 || before(v, i, best, place))) {
          best = v;
          place = i;
        }
      }
      values[t] = best;
      places[t] = place;
      __syncthreads();
      for (int h = BLOCK / 2; h > 0; h >>= 1) {
        if (t < h && places[t + h] >= 0 &&
            (places[t] < 0 || before(values[t + h], places[t + h], values[t], places[t]))) {
          values[t] = values[t + h];
          places[t] = places[t + h];
        }
        __syncthreads();
      }
      last = places[0];
      last_value = values[0];
      if (t == 0)
        y[(outer * K + round) * INNER + inner] = last;
      __syncthreads();
    }
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
  return {{"BATCH", wide(g.batch)},
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
  if (call.name() == "argmax" || call.name() == "topk") {
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
                                                   {"K", wide(call.intAttribute("k", 1))},
                                                   {"SMALLEST", call.intAttribute("smallest") != 0 ? "true" : "false"},
                                                   {"T", memoryType(call.inputs[0].dtype)}},
                                                  kTopK),
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
      kernel.actions.push_back(Launch{withConstants(constants, kGather),
                                      {blocksFor(y.elements()), 1, 1},
                                      256,
                                      {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
    return kernel;
  }
  if (y.bytes() > 0)
    kernel.actions.push_back(FillBytes{at(y.data), y.bytes()});
  constants.push_back({"ADD(a, b)", addOf(y.dtype)});
  if (y.elements() > 0 && g.indices > 0)
    kernel.actions.push_back(Launch{withConstants(constants, kScatterAdd),
                                    {static_cast<uint32_t>(g.batch * g.indices), 1, 1},
                                    256,
                                    {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
  return kernel;
}

} // namespace tessera::rt::cuda
