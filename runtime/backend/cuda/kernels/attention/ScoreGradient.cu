// Turns the gradient of the probabilities into that of q k^T, and the probabilities into what dropout makes of them.
extern "C" __global__ void k(T *__restrict__ probabilities, T *__restrict__ gradient, const M *__restrict__ keep) {
  __shared__ double shared[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 line = blockIdx.x; line < LINES; line += gridDim.x) {
    const i64 row = line % ROWS;
    const i64 inside = INSIDE;
    (void)row;
    T *p = probabilities + line * KEYS;
    T *g = gradient + line * KEYS;
    double mine = 0;
#if HAS_KEEP
    for (i64 j = t; j < KEYS; j += BLOCK)
      g[j] = (T)((double)g[j] * ((double)KEEP(line * KEYS + j) * KEEP_SCALE));
#endif
    for (i64 j = t; j < KEYS; j += BLOCK)
      mine += (double)p[j] * (double)g[j];
    const double sum = total(mine, shared, t, false);
    for (i64 j = t; j < KEYS; j += BLOCK)
      g[j] = j < inside ? (T)(SCALE * (double)p[j] * ((double)g[j] - sum)) : (T)0;
#if HAS_KEEP
    for (i64 j = t; j < KEYS; j += BLOCK)
      p[j] = (T)((double)p[j] * ((double)KEEP(line * KEYS + j) * KEEP_SCALE));
#endif
  }
}
