extern "C" __global__ void __launch_bounds__(256, 1)
    k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const B *__restrict__ bias,
      const T *__restrict__ dy, const A *__restrict__ statistics, S *__restrict__ dq, const M *__restrict__ keep) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x;
  const i64 tiles = (ROWS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * HEADS * tiles; task += gridDim.x) {
    const i64 first = task % tiles * TILE, head = task / tiles % HEADS, batch = task / tiles / HEADS;
    const i64 rows = ROWS - first < TILE ? ROWS - first : TILE, line = (batch * HEADS + head) * ROWS + first;
    const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *py = dy + Y_BASE(batch, head) + first * Y_STRIDE;
    const T *pk = kk + K_BASE(batch, head / GROUP), *pv = v + V_BASE(batch, head / GROUP);
    const i64 seen = inside(first + rows - 1); // beyond it scores do not depend on q
    for (i64 column = 0; column < DEPTH; column += 16 * COLUMNS) {
      A o[HELD_ROWS][HELD_COLUMNS];
      EACH (i, HELD_ROWS)
        EACH (j, HELD_COLUMNS)
          o[i][j] = 0;
      for (i64 key0 = 0; key0 < seen; key0 += TILE) {
        const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
        A s[HELD_ROWS][HELD_KEYS], d[HELD_ROWS][HELD_KEYS];
        product(s, pq, Q_STRIDE, rows, pk + key0 * K_STRIDE, K_STRIDE, keys, DEPTH, h, t);
        probabilities(s, statistics, line, first, rows, key0, keys, bias_of(bias, batch, head), t);
        product(d, py, Y_STRIDE, rows, pv + key0 * V_STRIDE, V_STRIDE, keys, WIDTH, h, t);
        gradients(d, s, statistics, line, first, rows, key0, keys, keep_of(keep, batch, head), t);
        share(d, false, h, t);
        accumulate(o, false, pk + key0 * K_STRIDE, K_STRIDE, keys, column, DEPTH, h, t);
      }
      EACH (i, HELD_ROWS)
        EACH (j, HELD_COLUMNS) {
          const i64 row = row_at(t, i), c = column + column_at(t, j);
          if (row < rows && c < DEPTH)
            dq[TO_Q_BASE(batch, head) + (first + row) * TO_Q_STRIDE + c] = STORE(o[i][j]);
        }
    }
    __syncthreads();
  }
}
