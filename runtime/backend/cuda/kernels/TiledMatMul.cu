// A block computes 16 x 16 results, through tiles of both operands in shared memory. Batch dimensions are split
// by BATCH_INDEX, which sets ia and ib, counted in matrices. The sum over k has leaves (Leaves.cu).
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  __shared__ A ta[16][17], tb[16][17];
  const u32 tx = threadIdx.x % 16u, ty = threadIdx.x / 16u;
  for (i64 tile = blockIdx.x; tile < BATCH * TILES_M * TILES_N; tile += gridDim.x) {
    const i64 batch = tile / (TILES_M * TILES_N);
    const i64 m = tile / TILES_N % TILES_M * 16 + ty, n0 = tile % TILES_N * 16, n = n0 + tx;
    i64 ia = 0, ib = 0;
    BATCH_INDEX
    const T *pa = a + ia * (M * K), *pb = b + ib * (K * N);
    Tree tree;
    for (i64 leaf = 0; leaf < LEAVES; ++leaf) {
      const i64 end = (leaf + 1) * (K / LEAVES);
      A sum = 0;
      for (i64 k0 = leaf * (K / LEAVES); k0 < end; k0 += 16) {
        const i64 ka = k0 + tx, kb = k0 + ty;
        ta[ty][tx] = m < M && ka < end ? (A)pa[TRANSPOSE_A ? ka * M + m : m * K + ka] : (A)0;
        tb[ty][tx] = n < N && kb < end ? (A)pb[TRANSPOSE_B ? n * K + kb : kb * N + n] : (A)0;
        __syncthreads();
        for (int i = 0; i < 16; ++i)
          sum += ta[ty][i] * tb[i][tx];
        __syncthreads();
      }
      add_leaf(tree, leaf, (V)sum);
    }
    if (m < M && n < N)
      y[(batch * M + m) * N + n] = (T)tree.root;
  }
}
