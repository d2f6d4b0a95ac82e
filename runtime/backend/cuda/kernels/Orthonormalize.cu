// One block per matrix, column by column, as runtime/backend/reference/Orthonormalize.cpp; Orthonormalize.h says what
// replaces a column of which nothing is left.
__device__ inline double filler(u32 row, u32 column, u32 attempt) {
  u32 h = row * 0x9e3779b9u + column * 0x85ebca6bu + attempt * 0xc2b2ae35u + 0x27d4eb2fu;
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return (double)(h ^ (h >> 16)) * 4.656612873077392578125e-10 - 1.0;
}
extern "C" __global__ void k(const T *__restrict__ x, T *y, double *basis) {
  __shared__ double shared[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 matrix = blockIdx.x; matrix < MATRICES; matrix += gridDim.x) {
    const T *from = x + matrix * (ROWS * COLUMNS);
    T *to = y + matrix * (ROWS * COLUMNS);
    double *columns = basis + matrix * (ROWS * COLUMNS);
    double sum = 0;
    for (i64 i = t; i < ROWS * COLUMNS; i += BLOCK)
      sum += (double)from[i] * (double)from[i];
    sum = total(sum, shared, t, false);
    if (!(sum - sum == 0)) { // an infinity or a NaN
      for (i64 i = t; i < ROWS * COLUMNS; i += BLOCK)
        to[i] = (T)(sum - sum);
      continue;
    }
    for (i64 j = 0; j < COLUMNS; ++j) {
      double *v = columns + j * ROWS;
      double left = 0;
      bool found = false;
      for (int attempt = -1; !found && attempt < ATTEMPTS; ++attempt) {
        // A thread reads and writes the same rows everywhere, so columns need no barrier.
        double mine = 0;
        for (i64 i = t; i < ROWS; i += BLOCK) {
          v[i] = attempt < 0 ? (double)from[i * COLUMNS + j] : filler((u32)i, (u32)j, (u32)attempt);
          mine += v[i] * v[i];
        }
        const double length = sqrt(total(mine, shared, t, false));
        for (i64 k = 0; k < 2 * j; ++k) { // twice, since the first time leaves errors
          const double *u = columns + (k % j) * ROWS;
          mine = 0;
          for (i64 i = t; i < ROWS; i += BLOCK)
            mine += u[i] * v[i];
          const double share = total(mine, shared, t, false);
          for (i64 i = t; i < ROWS; i += BLOCK)
            v[i] -= share * u[i];
        }
        mine = 0;
        for (i64 i = t; i < ROWS; i += BLOCK)
          mine += v[i] * v[i];
        left = sqrt(total(mine, shared, t, false));
        found = left > NOTHING_LEFT * length;
      }
      for (i64 i = t; i < ROWS; i += BLOCK) {
        v[i] = found ? v[i] / left : 0.0;
        to[i * COLUMNS + j] = (T)v[i];
      }
    }
  }
}
