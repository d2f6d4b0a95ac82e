template <typename V, int N> struct alignas(N * sizeof(V)) Side { V e[N]; };

// The indices in the order of their rows are cut into chunks. THREADS threads add up the updates of a chunk row by
// row, for SIDE columns each. A row that lies within the chunk is done. Of one that began before it or goes on behind
// it, the sum is put into `parts`: the first of the chunk's two, and the second.
extern "C" __global__ void k(const T *__restrict__ updates, const K *__restrict__ rows, const P *__restrict__ places,
                             S *__restrict__ parts, T *__restrict__ y) {
  const i64 chunk = (i64)blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
  const i64 begin = chunk * CHUNK, end = begin + CHUNK < ALL ? begin + CHUNK : ALL;
  if (begin >= ALL)
    return;
  for (i64 group = (i64)blockIdx.y * THREADS + threadIdx.x % THREADS; group < OUTER * INNER / SIDE;
       group += (i64)gridDim.y * THREADS) {
    const i64 o = group * SIDE / INNER, inner = group * SIDE % INNER;
    bool began = begin > 0 && rows[begin - 1] == rows[begin];
    S sum[SIDE];
    for (u32 s = 0; s < SIDE; ++s)
      sum[s] = 0;
    for (i64 first = begin; first < end; first += AHEAD) {
      K row[AHEAD + 1];
      Side<T, SIDE> x[AHEAD]; // all of them are on their way before the first is needed
#pragma unroll
      for (u32 a = 0; a < AHEAD + 1; ++a)
        row[a] = first + a < ALL ? rows[first + a] : NOWHERE;
#pragma unroll
      for (u32 a = 0; a < AHEAD; ++a)
        if (first + a < end && row[a] != NOWHERE) {
          const i64 place = (i64)places[first + a], batch = place / INDICES, j = place % INDICES;
          x[a] = *(const Side<T, SIDE> *)(updates + ((batch * OUTER + o) * INDICES + j) * INNER + inner);
        }
#pragma unroll
      for (u32 a = 0; a < AHEAD; ++a)
        if (first + a < end && row[a] != NOWHERE) {
          for (u32 s = 0; s < SIDE; ++s)
            sum[s] = ADD(sum[s], (S)x[a].e[s]);
          const bool goes_on = row[a + 1] == row[a];
          if (goes_on && first + a + 1 < end)
            continue;
          if (began || goes_on) {
            S *to = parts + (chunk * 2 + (began ? 0 : 1)) * (OUTER * INNER) + group * SIDE;
            for (u32 s = 0; s < SIDE; ++s)
              to[s] = sum[s];
          } else {
            const i64 batch = (i64)(row[a] / EXTENT), at = (i64)(row[a] % EXTENT);
            Side<T, SIDE> total;
            for (u32 s = 0; s < SIDE; ++s)
              total.e[s] = (T)sum[s];
            *(Side<T, SIDE> *)(y + ((batch * OUTER + o) * EXTENT + at) * INNER + inner) = total;
          }
          began = false;
          for (u32 s = 0; s < SIDE; ++s)
            sum[s] = 0;
        }
    }
  }
}
