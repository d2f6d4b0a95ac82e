// FIRST(i) is summed over the line after the maximum, RESULT(i) is stored; `p` is the line of the first operand,
// `q` of the second.
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  __shared__ double shared[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 line = blockIdx.x; line < LINES; line += gridDim.x) {
    const i64 start = line / INNER * (EXTENT * INNER) + line % INNER;
    const T *p = a + start, *q = b + start;
    T *out = y + start;
    T top = 0;
    if (NEEDS_MAXIMUM) {
      T mine = (T)LOWEST;
      for (i64 i = t; i < EXTENT; i += BLOCK)
        mine = mine > p[i * INNER] ? mine : p[i * INNER];
      top = (T)total((double)mine, shared, t, true);
    }
    double mine = 0;
    for (i64 i = t; i < EXTENT; i += BLOCK)
      mine += (double)(FIRST(i * INNER));
    const double sum = total(mine, shared, t, false);
    (void)q;
    (void)top;
    for (i64 i = t; i < EXTENT; i += BLOCK)
      out[i * INNER] = (T)(RESULT(i * INNER));
  }
}
