// Products of tiles of bfloat16 on tensor cores, with sums in F32. A block's eight warps have 16 rows and half of the
// keys or columns of a tile each; a thread holds what the instruction gives it (PTX ISA, "Matrix Fragments for
// mma.m16n8k16"): rows g and g + 8, and of every eight columns 2 q and 2 q + 1, where g = lane / 4 and q = lane % 4.
//
// Probabilities and their gradients are F32. They are multiplied as the sum of two bfloat16 numbers, which keeps 16
// bits of each.
#define TILE 64
#define HELD_ROWS 2
#define HELD_KEYS 8
#define HELD_COLUMNS (2 * COLUMNS)
#define SHARERS 8 // threads that hold parts of the same row
__device__ inline int row_at(int t, int i) { return t / 32 % 4 * 16 + t % 32 / 4 + 8 * i; }
__device__ inline int key_at(int t, int j) { return t / 128 * 32 + j / 2 * 8 + t % 4 * 2 + j % 2; }
__device__ inline int column_at(int t, int j) { return t / 128 * 8 * COLUMNS + j / 2 * 8 + t % 4 * 2 + j % 2; }
__device__ inline int sharer(int t) { return t / 128 * 4 + t % 4; }
// Rows are 16 bytes longer than what they hold, so that the threads of a warp read from different banks.
struct alignas(16) Shared {
  union {
    struct {
      T a[TILE][TILE + 8], b[TILE][TILE + 8]; // slices of two operands of a product
    };
    T m[16 * COLUMNS][TILE + 8]; // the transpose of a slice of what p is multiplied with
  };
  T high[TILE][TILE + 8], low[TILE][TILE + 8]; // a tile of probabilities, or of their gradient, or its transpose
  A total[TILE][SHARERS + 1];
};
__device__ inline void put(Shared &h, int row, int key, A p, bool transposed) {
  const T high = to_bfloat(p);
  const A rest = p - from_bfloat(high);
  const int r = transposed ? key : row, c = transposed ? row : key;
  h.high[r][c] = high;
  h.low[r][c] = to_bfloat(rest - rest == 0 ? rest : (A)0); // what is not finite has no rest
}

struct alignas(16) Eight {
  T of[8];
};
// Eight elements from `x` on, of which `there` exist.
__device__ inline Eight eight(const T *x, i64 there) {
  if (ALIGNED && there >= 8)
    return *(const Eight *)x;
  Eight e;
  EACH (i, 8)
    e.of[i] = i < there ? x[i] : (T)0;
  return e;
}
__device__ inline u32 pair(const T *x) { return *(const u32 *)x; }

// d += a b for 16 rows, 8 columns and 16 products of each.
__device__ inline void multiply(A *d, const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  mma_m16n8k16_bf16(d, a, b);
#endif
}
// The 16 columns from `column` on of the rows g and g + 8 of this warp's rows.
__device__ inline void fragment(u32 (&a)[4], const T (&x)[TILE][TILE + 8], int column, int t) {
  const int row = row_at(t, 0), c = column + t % 4 * 2;
  a[0] = pair(&x[row][c]);
  a[1] = pair(&x[row + 8][c]);
  a[2] = pair(&x[row][c + 8]);
  a[3] = pair(&x[row + 8][c + 8]);
}

// s = rows of x times rows of y, both from their first row on; rows that are not there count as zero.
__device__ inline void product(A (&s)[HELD_ROWS][HELD_KEYS], const T *x, i64 xStride, i64 xRows, const T *y,
                               i64 yStride, i64 yRows, i64 depth, Shared &h, int t) {
  A sums[HELD_KEYS / 2][4];
  EACH (n, HELD_KEYS / 2)
    EACH (i, 4)
      sums[n][i] = 0;
  for (i64 c0 = 0; c0 < depth; c0 += TILE) {
    __syncthreads();
    for (int e = t; e < TILE * TILE / 8; e += 256) {
      const int row = e / (TILE / 8), c = e % (TILE / 8) * 8;
      *(Eight *)&h.a[row][c] = eight(x + row * xStride + c0 + c, row < xRows ? depth - c0 - c : 0);
      *(Eight *)&h.b[row][c] = eight(y + row * yStride + c0 + c, row < yRows ? depth - c0 - c : 0);
    }
    __syncthreads();
    EACH (k, TILE / 16)
      if (c0 + 16 * k < depth) {
        u32 a[4], b[2];
        fragment(a, h.a, 16 * k, t);
        EACH (n, HELD_KEYS / 2) {
          const T *row = &h.b[t / 128 * 32 + 8 * n + t % 32 / 4][16 * k + t % 4 * 2];
          b[0] = pair(row);
          b[1] = pair(row + 8);
          multiply(sums[n], a, b);
        }
      }
  }
  EACH (n, HELD_KEYS / 2)
    EACH (i, 4)
      s[i / 2][2 * n + i % 2] = sums[n][i];
}

// o += p y for columns from `column` on; y begins with the tile's first row. What put() transposed is p^T.
__device__ inline void accumulate(A (&o)[HELD_ROWS][HELD_COLUMNS], bool, const T *y, i64 stride, i64 rows, i64 column,
                                  i64 columns, Shared &h, int t) {
  __syncthreads(); // also: p is written
  for (int e = t; e < TILE * 2 * COLUMNS; e += 256) {
    const int k = e % TILE, c = e / TILE * 8;
    const Eight m = eight(y + k * stride + column + c, k < rows ? columns - column - c : 0);
    EACH (i, 8)
      h.m[c + i][k] = m.of[i];
  }
  __syncthreads();
  EACH (k, TILE / 16)
    if (16 * k < rows) {
      u32 high[4], low[4], b[2];
      fragment(high, h.high, 16 * k, t);
      fragment(low, h.low, 16 * k, t);
      EACH (n, COLUMNS) {
        const T *row = &h.m[t / 128 * 8 * COLUMNS + 8 * n + t % 32 / 4][16 * k + t % 4 * 2];
        b[0] = pair(row);
        b[1] = pair(row + 8);
        A sums[4];
        EACH (i, 4)
          sums[i] = o[i / 2][2 * n + i % 2];
        multiply(sums, high, b);
        multiply(sums, low, b);
        EACH (i, 4)
          o[i / 2][2 * n + i % 2] = sums[i];
      }
    }
}
