// Sum or maximum over the threads of a block, of which there are BLOCK.
__device__ inline double total(double mine, double *shared, int t, bool largest) {
  __syncthreads();
  shared[t] = mine;
  __syncthreads();
  for (int h = BLOCK / 2; h > 0; h >>= 1) {
    if (t < h)
      shared[t] = largest ? op_max(shared[t], shared[t + h]) : shared[t] + shared[t + h];
    __syncthreads();
  }
  return shared[0];
}
