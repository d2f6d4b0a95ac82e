// Both passes of the gradient turn a tile into probabilities and gradients of scores.
__device__ inline void probabilities(A (&s)[R][R], const A *statistics, i64 line, i64 first, i64 rows, i64 key0,
                                     i64 keys, const T *bias, int t) {
  const int tx = t % 16, ty = t / 16;
  EACH (i, R) {
    const i64 row = ty + 16 * i;
    const A top = row < rows ? statistics[line + row] : (A)0,
            weight = row < rows ? statistics[LINES + line + row] : (A)0;
    EACH (j, R) {
      const i64 key = tx + 16 * j;
      s[i][j] = row < rows && key < keys ? op_exp(score(s[i][j], first + row, key0 + key, bias) - top) * weight : (A)0;
    }
  }
}
// d = scale * s * (d - delta) inside, 0 outside.
__device__ inline void gradients(A (&d)[R][R], A (&s)[R][R], const A *statistics, i64 line, i64 first, i64 rows,
                                 i64 key0, i64 keys, int t) {
  const int tx = t % 16, ty = t / 16;
  EACH (i, R) {
    const i64 row = ty + 16 * i;
    const A delta = row < rows ? statistics[2 * LINES + line + row] : (A)0;
    EACH (j, R) {
      const i64 key = tx + 16 * j;
      d[i][j] =
          row < rows && key < keys && key0 + key < inside(first + row) ? (A)SCALE * s[i][j] * (d[i][j] - delta) : (A)0;
    }
  }
}
__device__ inline void keep(A (&s)[R][R], Shared &h, int t) {
  __syncthreads(); // what read p is done
  EACH (i, R)
    EACH (j, R)
      h.p[t / 16 + 16 * i][t % 16 + 16 * j] = s[i][j];
}
