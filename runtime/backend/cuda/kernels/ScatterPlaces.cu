// Writes the indices of each row into its list, in whatever order threads come.
extern "C" __global__ void k(const I *__restrict__ indices, u32 *__restrict__ counts, const u32 *__restrict__ begins,
                             u32 *__restrict__ places) {
  for (i64 task = (i64)blockIdx.x * 256 + threadIdx.x; task < BATCH * INDICES; task += (i64)gridDim.x * 256) {
    const i64 batch = task / INDICES, row = (i64)indices[task], at = (i64)((u64)row - (u64)START);
    if (at >= 0 && at < EXTENT && row >= START)
      places[batch * INDICES + begins[batch * (EXTENT + 1) + at] + atomicAdd(counts + batch * EXTENT + at, 1u)] =
          (u32)(task % INDICES);
  }
}
