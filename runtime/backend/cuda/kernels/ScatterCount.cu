// How many indices of a tile go to each of 256 lists, by eight bits of their rows. Whole numbers are counted, so that
// the order of threads does not matter.
extern "C" __global__ void k(const F *__restrict__ from, u32 *__restrict__ counts) {
  __shared__ u32 mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  const i64 begin = (i64)blockIdx.x * TILE, end = begin + TILE < ALL ? begin + TILE : ALL;
  for (i64 i = begin + threadIdx.x; i < end; i += 256)
    atomicAdd(mine + (u32)(row_of(from, i) >> SHIFT & 255), 1u);
  __syncthreads();
  counts[blockIdx.x * 256u + threadIdx.x] = mine[threadIdx.x];
}
