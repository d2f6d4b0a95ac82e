// Turns the gradient of the probabilities into that of q k^T.
extern "C" __global__ void k(const T *__restrict__ probabilities, T *__restrict__ gradient) {
  __shared__ double shared[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 line = blockIdx.x; line < LINES; line += gridDim.x) {
    const i64 row = line % ROWS;
    const i64 inside = INSIDE;
    (void)row;
    const T *p = probabilities + line * KEYS;
    T *g = gradient + line * KEYS;
    double mine = 0;
    for (i64 j = t; j < KEYS; j += BLOCK)
      mine += (double)p[j] * (double)g[j];
    const double sum = total(mine, shared, t, false);
    for (i64 j = t; j < KEYS; j += BLOCK)
      g[j] = j < inside ? (T)(SCALE * (double)p[j] * ((double)g[j] - sum)) : (T)0;
  }
}
