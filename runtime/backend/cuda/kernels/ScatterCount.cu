// How often each row is added to. Whole numbers are counted, so that the order of threads does not matter.
extern "C" __global__ void k(const I *__restrict__ indices, u32 *__restrict__ counts) {
  for (i64 task = (i64)blockIdx.x * 256 + threadIdx.x; task < BATCH * INDICES; task += (i64)gridDim.x * 256) {
    const i64 row = (i64)indices[task], at = (i64)((u64)row - (u64)START);
    if (at >= 0 && at < EXTENT && row >= START)
      atomicAdd(counts + task / INDICES * EXTENT + at, 1u);
  }
}
