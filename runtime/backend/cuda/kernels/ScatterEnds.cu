// The sum of a row that several chunks have parts of, in their order: by the threads of the chunk where it begins.
extern "C" __global__ void k(const K *__restrict__ rows, const S *__restrict__ parts, T *__restrict__ y) {
  const i64 chunk = (i64)blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
  const i64 begin = chunk * CHUNK, next = begin + CHUNK;
  if (next >= ALL)
    return;
  const K row = rows[next - 1];
  if (row == NOWHERE || rows[next] != row || (begin > 0 && rows[begin - 1] == row))
    return;
  i64 low = chunk + 1, high = (ALL + CHUNK - 1) / CHUNK; // the first chunk behind it that begins with another row
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (rows[middle * CHUNK] == row)
      low = middle + 1;
    else
      high = middle;
  }
  const i64 columns = OUTER * INNER, batch = (i64)(row / EXTENT), at = (i64)(row % EXTENT);
  for (i64 column = (i64)blockIdx.y * THREADS + threadIdx.x % THREADS; column < columns;
       column += (i64)gridDim.y * THREADS) {
    S sum = parts[(chunk * 2 + 1) * columns + column];
#pragma unroll 16
    for (i64 c = chunk + 1; c < low; ++c)
      sum = ADD(sum, parts[c * 2 * columns + column]);
    y[((batch * OUTER + column / INNER) * EXTENT + at) * INNER + column % INNER] = (T)sum;
  }
}
