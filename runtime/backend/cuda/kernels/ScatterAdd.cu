// A block takes one index after the other. The first of equal indices adds up the rows of all later ones, in their
// order, so that no atomic operation is needed and the sum is that of a loop. `y` is zero before.
__device__ inline void add_rows(const I *__restrict__ indices, const T *__restrict__ updates, T *__restrict__ y, i64 j,
                                int *flags) {
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

extern "C" __global__ void k(const I *__restrict__ indices, const T *__restrict__ updates, T *__restrict__ y) {
  __shared__ int flags[256];
  for (i64 task = blockIdx.x; task < BATCH * INDICES; task += gridDim.x) {
    const i64 batch = task / INDICES;
    add_rows(indices + batch * INDICES, updates + batch * (OUTER * INDICES * INNER),
             y + batch * (OUTER * EXTENT * INNER), task % INDICES, flags);
    __syncthreads();
  }
}
