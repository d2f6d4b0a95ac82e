// A block takes one row after the other, puts its list in order, and adds up in this order, as a loop would. Rows that
// nothing is added to are zero.
extern "C" __global__ void k(const T *__restrict__ updates, const u32 *__restrict__ begins,
                             const u32 *__restrict__ places, u32 *__restrict__ ordered, T *__restrict__ y) {
  for (i64 task = blockIdx.x; task < BATCH * EXTENT; task += gridDim.x) {
    const i64 batch = task / EXTENT, at = task % EXTENT;
    const u32 *mine = begins + batch * (EXTENT + 1) + at;
    const i64 begin = batch * INDICES + mine[0];
    const u32 n = mine[1] - mine[0];
    for (u32 e = threadIdx.x; e < n; e += 256u) {
      const u32 place = places[begin + e];
      u32 before = 0;
      for (u32 p = 0; p < n; ++p)
        before += places[begin + p] < place;
      ordered[begin + before] = place;
    }
    __syncthreads();
    for (i64 i = threadIdx.x; i < OUTER * INNER; i += 256) {
      const i64 o = i / INNER, inner = i % INNER;
      T sum = (T)0;
      for (u32 e = 0; e < n; ++e)
        sum = ADD(sum, updates[((batch * OUTER + o) * INDICES + ordered[begin + e]) * INNER + inner]);
      y[((batch * OUTER + o) * EXTENT + at) * INNER + inner] = sum;
    }
  }
}
