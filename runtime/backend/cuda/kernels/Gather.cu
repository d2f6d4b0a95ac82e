// One thread per element of the result; an index outside [0, ROWS) after START gives zeros.
extern "C" __global__ void k(const T *__restrict__ table, const I *__restrict__ indices, T *__restrict__ y) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < BATCH * OUTER * INDICES * INNER;
       i += gridDim.x * (i64)blockDim.x) {
    const i64 inner = i % INNER, j = i / INNER % INDICES, o = i / INNER / INDICES;
    const i64 index = (i64)indices[o / OUTER * INDICES + j], at = (i64)((u64)index - (u64)START);
    y[i] = at >= 0 && at < ROWS && index >= START ? table[(o * EXTENT + at) * INNER + inner] : (T)0;
  }
}
