#define TILE (16 * R)
#define CHUNK 16
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
struct Shared {
  A a[TILE][CHUNK + 1], b[TILE][CHUNK + 1]; // slices of two operands of a product
  A p[TILE][TILE + 1];                      // a tile of probabilities, or of their gradient
  A m[CHUNK][16 * COLUMNS];                 // a slice of what p is multiplied with
  A total[TILE][17];
};
__device__ inline i64 inside(i64 row) { return INSIDE; }

// s = rows of x times rows of y, both from their first row on; rows that are not there count as zero.
__device__ inline void product(A (&s)[R][R], const T *x, i64 xStride, i64 xRows, const T *y, i64 yStride, i64 yRows,
                               i64 depth, Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  EACH (i, R)
    EACH (j, R)
      s[i][j] = 0;
  for (i64 c0 = 0; c0 < depth; c0 += CHUNK) {
    __syncthreads();
    for (int e = t; e < TILE * CHUNK; e += 256) {
      const int row = e / CHUNK, c = e % CHUNK;
      h.a[row][c] = row < xRows && c0 + c < depth ? (A)x[row * xStride + c0 + c] : (A)0;
      h.b[row][c] = row < yRows && c0 + c < depth ? (A)y[row * yStride + c0 + c] : (A)0;
    }
    __syncthreads();
    EACH (c, CHUNK) {
      A u[R], v[R];
      EACH (i, R)
        u[i] = h.a[ty + 16 * i][c];
      EACH (j, R)
        v[j] = h.b[tx + 16 * j][c];
      EACH (i, R)
        EACH (j, R)
          s[i][j] += u[i] * v[j];
    }
  }
}

// o += p y, or p^T y, for columns from `column` on; y begins with the tile's first row.
template <int N>
__device__ inline void accumulate(A (&o)[R][N], bool transposed, const T *y, i64 stride, i64 rows, i64 column,
                                  i64 columns, Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  for (int k0 = 0; k0 < TILE; k0 += CHUNK) {
    __syncthreads(); // also: p is written
    for (int e = t; e < CHUNK * 16 * N; e += 256) {
      const int k = e / (16 * N), c = e % (16 * N);
      h.m[k][c] = k0 + k < rows && column + c < columns ? (A)y[(k0 + k) * stride + column + c] : (A)0;
    }
    __syncthreads();
    EACH (k, CHUNK) {
      A u[R], v[N];
      EACH (i, R)
        u[i] = transposed ? h.p[k0 + k][ty + 16 * i] : h.p[ty + 16 * i][k0 + k];
      EACH (j, N)
        v[j] = h.m[k][tx + 16 * j];
      EACH (i, R)
        EACH (j, N)
          o[i][j] += u[i] * v[j];
    }
  }
}

// The totals of every row over the 16 threads that share it. All of these threads get the same numbers.
__device__ inline void totals(A (&v)[R], bool largest, Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  __syncthreads();
  EACH (i, R)
    h.total[ty + 16 * i][tx] = v[i];
  __syncthreads();
  EACH (i, R) {
    A r = h.total[ty + 16 * i][0];
    for (int k = 1; k < 16; ++k)
      r = largest ? op_max(r, h.total[ty + 16 * i][k]) : r + h.total[ty + 16 * i][k];
    v[i] = r;
  }
}

// Whether `mine` is true in any thread of the block.
__device__ inline bool any(bool mine, Shared &h, int t) {
  A v[R];
  EACH (i, R)
    v[i] = mine ? (A)1 : (A)0;
  totals(v, true, h, t);
  __syncthreads();
  if (t % 16 == 0)
    h.total[t / 16][16] = v[0];
  __syncthreads();
  bool all = false;
  for (int k = 0; k < 16; ++k)
    all |= h.total[k][16] != (A)0;
  return all;
}

// Turns a product into a score.
__device__ inline A score(A product, i64 row, i64 key, const T *bias) {
  return (key < inside(row) ? (A)SCALE * product : (A)OUTSIDE) + (A)(BIAS(row * BIAS_ROW + key * BIAS_KEY));
}
__device__ inline const T *bias_of(const T *bias, i64 batch, i64 head) {
  i64 at = head * BIAS_HEAD;
  BIAS_BASE(void) batch;
  return bias + at;
}
