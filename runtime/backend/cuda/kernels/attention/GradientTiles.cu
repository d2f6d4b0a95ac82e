// Both passes of the gradient turn a tile into probabilities and gradients of scores.
__device__ inline void probabilities(A (&s)[HELD_ROWS][HELD_KEYS], const A *statistics, i64 line, i64 first, i64 rows,
                                     i64 key0, i64 keys, const B *bias, int t) {
  EACH (i, HELD_ROWS) {
    const i64 row = row_at(t, i);
    const A top = row < rows ? statistics[line + row] : (A)0,
            weight = row < rows ? statistics[LINES + line + row] : (A)0;
    EACH (j, HELD_KEYS) {
      const i64 key = key_at(t, j);
      s[i][j] = row < rows && key < keys ? op_exp(score(s[i][j], first + row, key0 + key, bias) - top) * weight : (A)0;
    }
  }
}
// d = scale * s * (dropped d - delta) inside, 0 outside.
__device__ inline void gradients(A (&d)[HELD_ROWS][HELD_KEYS], A (&s)[HELD_ROWS][HELD_KEYS], const A *statistics,
                                 i64 line, i64 first, i64 rows, i64 key0, i64 keys, const M *keep, int t) {
  EACH (i, HELD_ROWS) {
    const i64 row = row_at(t, i);
    const A delta = row < rows ? statistics[2 * LINES + line + row] : (A)0;
    EACH (j, HELD_KEYS) {
      const i64 key = key_at(t, j);
      d[i][j] = row < rows && key < keys && key0 + key < inside(first + row)
                    ? (A)SCALE * s[i][j] * (dropped(d[i][j], first + row, key0 + key, keep) - delta)
                    : (A)0;
    }
  }
}
// Into shared memory: s, or what dropout makes of it.
__device__ inline void share_dropped(A (&s)[HELD_ROWS][HELD_KEYS], bool transposed, i64 first, i64 rows, i64 key0,
                                     i64 keys, const M *keep, Shared &h, int t) {
  __syncthreads(); // what read p is done
  EACH (i, HELD_ROWS)
    EACH (j, HELD_KEYS) {
      const i64 row = row_at(t, i), key = key_at(t, j);
      put(h, row_at(t, i), key_at(t, j),
          row < rows && key < keys ? dropped(s[i][j], first + row, key0 + key, keep) : s[i][j], transposed);
    }
}
__device__ inline void share(A (&s)[HELD_ROWS][HELD_KEYS], bool transposed, Shared &h, int t) {
  __syncthreads(); // what read p is done
  EACH (i, HELD_ROWS)
    EACH (j, HELD_KEYS)
      put(h, row_at(t, i), key_at(t, j), s[i][j], transposed);
}
