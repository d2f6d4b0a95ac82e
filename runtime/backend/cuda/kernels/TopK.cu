// One block per line, one round per result: the first in order of those that come after the last one. The order
// is total: larger ones first (NaN largest), or smaller ones, and of equals the one with the lower index.
__device__ inline bool larger(T a, T b) { return a > b || (a != a && b == b); }
__device__ inline bool before(T a, i64 i, T b, i64 j) {
  if (larger(a, b))
    return !SMALLEST;
  if (larger(b, a))
    return SMALLEST;
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
