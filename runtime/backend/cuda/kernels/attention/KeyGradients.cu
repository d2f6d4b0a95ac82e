extern "C" __global__ void __launch_bounds__(256, 1)
    k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const B *__restrict__ bias,
      const T *__restrict__ dy, const A *__restrict__ statistics, S *__restrict__ dk, S *__restrict__ dv,
      const M *__restrict__ keep) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x;
  const i64 tiles = (KEYS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * (HEADS / GROUP) * tiles; task += gridDim.x) {
    const i64 key0 = task % tiles * TILE, keyHead = task / tiles % (HEADS / GROUP),
              batch = task / tiles / (HEADS / GROUP);
    const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
    const T *pk = kk + K_BASE(batch, keyHead) + key0 * K_STRIDE, *pv = v + V_BASE(batch, keyHead) + key0 * V_STRIDE;
    for (i64 column = 0; column < DEPTH || column < WIDTH; column += 16 * COLUMNS) {
      A ok[HELD_ROWS][HELD_COLUMNS], ov[HELD_ROWS][HELD_COLUMNS];
      EACH (i, HELD_ROWS)
        EACH (j, HELD_COLUMNS)
          ok[i][j] = 0, ov[i][j] = 0;
      for (i64 head = keyHead * GROUP; head < (keyHead + 1) * GROUP; ++head)
        for (i64 first = 0; first < ROWS; first += TILE) {
          const i64 rows = ROWS - first < TILE ? ROWS - first : TILE, line = (batch * HEADS + head) * ROWS + first;
          const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *py = dy + Y_BASE(batch, head) + first * Y_STRIDE;
          const M *pm = keep_of(keep, batch, head);
          const bool crosses = key0 < inside(first + rows - 1); // the tile has scores that are products
          A s[HELD_ROWS][HELD_KEYS], d[HELD_ROWS][HELD_KEYS];
          if (crosses)
            product(s, pq, Q_STRIDE, rows, pk, K_STRIDE, keys, DEPTH, h, t);
          else {
            EACH (i, HELD_ROWS)
              EACH (j, HELD_KEYS)
                s[i][j] = 0;
          }
          probabilities(s, statistics, line, first, rows, key0, keys, bias_of(bias, batch, head), t);
          if (!crosses) {
            bool counts = false;
            EACH (i, HELD_ROWS)
              EACH (j, HELD_KEYS)
                counts |= s[i][j] != (A)0;
            if (!__syncthreads_or(counts))
              continue;
          }
          share_dropped(s, true, first, rows, key0, keys, pm, h, t);
          accumulate(ov, true, py, Y_STRIDE, rows, column, WIDTH, h, t);
          if (!crosses)
            continue;
          product(d, py, Y_STRIDE, rows, pv, V_STRIDE, keys, WIDTH, h, t);
          gradients(d, s, statistics, line, first, rows, key0, keys, pm, t);
          share(d, true, h, t);
          accumulate(ok, true, pq, Q_STRIDE, rows, column, DEPTH, h, t);
        }
      EACH (i, HELD_ROWS)
        EACH (j, HELD_COLUMNS) {
          const i64 key = row_at(t, i), c = column + column_at(t, j);
          if (key < keys && c < DEPTH)
            dk[TO_K_BASE(batch, keyHead) + (key0 + key) * TO_K_STRIDE + c] = STORE(ok[i][j]);
          if (key < keys && c < WIDTH)
            dv[TO_V_BASE(batch, keyHead) + (key0 + key) * TO_V_STRIDE + c] = STORE(ov[i][j]);
        }
    }
    __syncthreads();
  }
}
