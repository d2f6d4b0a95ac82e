// Products of tiles by scalar arithmetic. A thread holds every 16th row and every 16th key or column of a tile.
#define TILE (16 * R)
#define CHUNK 16
#define HELD_ROWS R
#define HELD_KEYS R
#define HELD_COLUMNS COLUMNS
#define SHARERS 16 // threads that hold parts of the same row
__device__ inline int row_at(int t, int i) { return t / 16 + 16 * i; }
__device__ inline int key_at(int t, int j) { return t % 16 + 16 * j; }
__device__ inline int column_at(int t, int j) { return t % 16 + 16 * j; }
__device__ inline int sharer(int t) { return t % 16; }
struct Shared {
  A a[TILE][CHUNK + 1], b[TILE][CHUNK + 1]; // slices of two operands of a product
  A p[TILE][TILE + 1];                      // a tile of probabilities, or of their gradient
  A m[CHUNK][16 * COLUMNS];                 // a slice of what p is multiplied with
  A total[TILE][SHARERS + 1];
};
__device__ inline void put(Shared &h, int row, int key, A p, bool) { h.p[row][key] = p; }

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
      h.a[row][c] = row < xRows && c0 + c < depth ? (A)LOAD(x[row * xStride + c0 + c]) : (A)0;
      h.b[row][c] = row < yRows && c0 + c < depth ? (A)LOAD(y[row * yStride + c0 + c]) : (A)0;
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
__device__ inline void accumulate(A (&o)[R][COLUMNS], bool transposed, const T *y, i64 stride, i64 rows, i64 column,
                                  i64 columns, Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  for (int k0 = 0; k0 < TILE; k0 += CHUNK) {
    __syncthreads(); // also: p is written
    for (int e = t; e < CHUNK * 16 * COLUMNS; e += 256) {
      const int k = e / (16 * COLUMNS), c = e % (16 * COLUMNS);
      h.m[k][c] = k0 + k < rows && column + c < columns ? (A)LOAD(y[(k0 + k) * stride + column + c]) : (A)0;
    }
    __syncthreads();
    EACH (k, CHUNK) {
      A u[R], v[COLUMNS];
      EACH (i, R)
        u[i] = transposed ? h.p[k0 + k][ty + 16 * i] : h.p[ty + 16 * i][k0 + k];
      EACH (j, COLUMNS)
        v[j] = h.m[k][tx + 16 * j];
      EACH (i, R)
        EACH (j, COLUMNS)
          o[i][j] += u[i] * v[j];
    }
  }
}
