// Without GRADIENT y is stored, and if KEPT log sum e^score of each row. With it the statistics [3, LINES] are stored:
// maximum, 1 / sum, delta; if KEPT, y_kept and kept are what the forward pass has stored.
extern "C" __global__ void __launch_bounds__(256, 1)
    k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const B *__restrict__ bias,
      const T *__restrict__ dy, const T *__restrict__ y_kept, S *__restrict__ y, A *__restrict__ statistics,
      L *__restrict__ kept, const M *__restrict__ keep) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x;
  const A lowest = (A)LOWEST;
  const i64 tiles = (ROWS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * HEADS * tiles; task += gridDim.x) {
    const i64 first = task % tiles * TILE, head = task / tiles % HEADS, batch = task / tiles / HEADS;
    const i64 rows = ROWS - first < TILE ? ROWS - first : TILE;
    const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *pk = kk + K_BASE(batch, head / GROUP),
            *pv = v + V_BASE(batch, head / GROUP);
    const B *pb = bias_of(bias, batch, head);
    const M *pm = keep_of(keep, batch, head);
    const i64 seen = inside(first + rows - 1); // beyond it scores do not depend on q
    A delta[HELD_ROWS], top[HELD_ROWS], sum[HELD_ROWS];
    EACH (i, HELD_ROWS)
      delta[i] = 0;
    const i64 line = (batch * HEADS + head) * ROWS + first;
#if GRADIENT && KEPT
    bool tells = true;
    EACH (i, HELD_ROWS)
      if (row_at(t, i) < rows) {
        const A known = (A)kept[line + row_at(t, i)];
        tells &= known < (A)LARGEST && known > -(A)LARGEST;
      }
    if (!__syncthreads_or(!tells)) {
      EACH (i, HELD_ROWS)
        if (row_at(t, i) < rows) {
          const i64 at = Y_BASE(batch, head) + (first + row_at(t, i)) * Y_STRIDE;
          for (i64 c = sharer(t); c < WIDTH; c += SHARERS)
            delta[i] += (A)LOAD(dy[at + c]) * (A)LOAD(y_kept[at + c]);
        }
      totals(delta, false, h, t);
      EACH (i, HELD_ROWS)
        if (sharer(t) == 0 && row_at(t, i) < rows) {
          statistics[line + row_at(t, i)] = (A)kept[line + row_at(t, i)];
          statistics[LINES + line + row_at(t, i)] = 1;
          statistics[2 * LINES + line + row_at(t, i)] = delta[i];
        }
      __syncthreads();
      continue;
    }
#endif
    for (i64 column = 0; column < WIDTH; column += 16 * COLUMNS) {
      A o[HELD_ROWS][HELD_COLUMNS];
      EACH (i, HELD_ROWS)
        EACH (j, HELD_COLUMNS)
          o[i][j] = 0;
      EACH (i, HELD_ROWS)
        top[i] = lowest, sum[i] = 0;
      bool asked = false;
      for (i64 key0 = 0; key0 < KEYS; key0 += TILE) {
        if (!HAS_BIAS && key0 >= seen && !asked) {
          // The test is negated, so that nothing is left out where a score is NaN.
          bool counts = false;
          EACH (i, HELD_ROWS)
            if (row_at(t, i) < rows)
              counts |= !(inside(first + row_at(t, i)) > 0 && (A)OUTSIDE - top[i] < (A)UNDERFLOW);
          if (!__syncthreads_or(counts))
            break;
          asked = true;
        }
        const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
        A s[HELD_ROWS][HELD_KEYS];
        if (key0 < seen)
          product(s, pq, Q_STRIDE, rows, pk + key0 * K_STRIDE, K_STRIDE, keys, DEPTH, h, t);
        else {
          EACH (i, HELD_ROWS)
            EACH (j, HELD_KEYS)
              s[i][j] = 0;
        }
        A largest[HELD_ROWS], part[HELD_ROWS];
        bool counts = false;
        EACH (i, HELD_ROWS) {
          largest[i] = lowest;
          EACH (j, HELD_KEYS) {
            const i64 key = key_at(t, j), row = row_at(t, i);
            const bool is = key < keys && row < rows;
            s[i][j] = is ? score(s[i][j], first + row, key0 + key, pb) : lowest;
            largest[i] = op_max(largest[i], s[i][j]);
            counts |= is && !(s[i][j] - top[i] < (A)UNDERFLOW);
          }
        }
        // What is added to masked scores may lift them, here and not there.
        if (HAS_BIAS && key0 >= seen && !__syncthreads_or(counts))
          continue;
        totals(largest, true, h, t);
        EACH (i, HELD_ROWS) {
          const A now = op_max(top[i], largest[i]);
          const A shrink = now == lowest ? (A)1 : op_exp(top[i] - now);
          top[i] = now;
          part[i] = 0;
          EACH (j, HELD_KEYS) {
            const A p = s[i][j] == lowest ? (A)0 : op_exp(s[i][j] - now);
            // What is 0 may be no score at all.
            put(h, row_at(t, i), key_at(t, j),
                p == (A)0 ? p : dropped(p, first + row_at(t, i), key0 + key_at(t, j), pm), false);
            part[i] += p;
          }
          sum[i] *= shrink;
          EACH (j, HELD_COLUMNS)
            o[i][j] *= shrink;
        }
        totals(part, false, h, t);
        EACH (i, HELD_ROWS)
          sum[i] += part[i];
        accumulate(o, false, pv + key0 * V_STRIDE, V_STRIDE, keys, column, WIDTH, h, t);
      }
      EACH (i, HELD_ROWS)
        EACH (j, HELD_COLUMNS) {
          const i64 row = row_at(t, i), c = column + column_at(t, j);
          if (row >= rows || c >= WIDTH)
            continue;
#if GRADIENT
          delta[i] += (A)LOAD(dy[Y_BASE(batch, head) + (first + row) * Y_STRIDE + c]) * (o[i][j] / sum[i]);
#else
          y[TO_Y_BASE(batch, head) + (first + row) * TO_Y_STRIDE + c] = STORE(o[i][j] / sum[i]);
#endif
        }
    }
    if (GRADIENT) {
      totals(delta, false, h, t);
      EACH (i, HELD_ROWS)
        if (sharer(t) == 0 && row_at(t, i) < rows) {
          statistics[line + row_at(t, i)] = top[i];
          statistics[LINES + line + row_at(t, i)] = (A)1 / sum[i];
          statistics[2 * LINES + line + row_at(t, i)] = delta[i];
        }
    } else if (KEPT) {
      EACH (i, HELD_ROWS)
        if (sharer(t) == 0 && row_at(t, i) < rows)
          kept[line + row_at(t, i)] = (L)(top[i] + op_log(sum[i]));
    }
    __syncthreads();
  }
}
