extern "C" __global__ void __launch_bounds__(256)
    k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const T *__restrict__ bias,
      const T *__restrict__ dy, const A *__restrict__ statistics, T *__restrict__ dk, T *__restrict__ dv) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x, tx = t % 16, ty = t / 16;
  const i64 tiles = (KEYS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * (HEADS / GROUP) * tiles; task += gridDim.x) {
    const i64 key0 = task % tiles * TILE, keyHead = task / tiles % (HEADS / GROUP),
              batch = task / tiles / (HEADS / GROUP);
    const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
    const T *pk = kk + K_BASE(batch, keyHead) + key0 * K_STRIDE, *pv = v + V_BASE(batch, keyHead) + key0 * V_STRIDE;
    for (i64 column = 0; column < DEPTH || column < WIDTH; column += 16 * COLUMNS) {
      A ok[R][COLUMNS], ov[R][COLUMNS];
      EACH (i, R)
        EACH (j, COLUMNS)
          ok[i][j] = 0, ov[i][j] = 0;
      for (i64 head = keyHead * GROUP; head < (keyHead + 1) * GROUP; ++head)
        for (i64 first = 0; first < ROWS; first += TILE) {
          const i64 rows = ROWS - first < TILE ? ROWS - first : TILE, line = (batch * HEADS + head) * ROWS + first;
          const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *py = dy + Y_BASE(batch, head) + first * Y_STRIDE;
          const bool crosses = key0 < inside(first + rows - 1); // the tile has scores that are products
          A s[R][R], d[R][R];
          if (crosses || HAS_BIAS)
            product(s, pq, Q_STRIDE, rows, pk, K_STRIDE, keys, DEPTH, h, t);
          else {
            EACH (i, R)
              EACH (j, R)
                s[i][j] = 0;
          }
          probabilities(s, statistics, line, first, rows, key0, keys, bias_of(bias, batch, head), t);
          if (!crosses) {
            bool counts = false;
            EACH (i, R)
              EACH (j, R)
                counts |= s[i][j] != (A)0;
            if (!any(counts, h, t))
              continue;
          }
          keep(s, h, t);
          accumulate<COLUMNS>(ov, true, py, Y_STRIDE, rows, column, WIDTH, h, t);
          if (!crosses)
            continue;
          product(d, py, Y_STRIDE, rows, pv, V_STRIDE, keys, WIDTH, h, t);
          gradients(d, s, statistics, line, first, rows, key0, keys, t);
          keep(d, h, t);
          accumulate<COLUMNS>(ok, true, pq, Q_STRIDE, rows, column, DEPTH, h, t);
        }
      EACH (i, R)
        EACH (j, COLUMNS) {
          const i64 key = ty + 16 * i, c = column + tx + 16 * j;
          if (key < keys && c < DEPTH)
            dk[TO_K_BASE(batch, keyHead) + (key0 + key) * TO_K_STRIDE + c] = (T)ok[i][j];
          if (key < keys && c < WIDTH)
            dv[TO_V_BASE(batch, keyHead) + (key0 + key) * TO_V_STRIDE + c] = (T)ov[i][j];
        }
    }
    __syncthreads();
  }
}
