#define POINTS(i, n) for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (i64)blockDim.x)
#define IN (IN0 * IN1 * IN2)
#define OUT (OUT0 * OUT1 * OUT2)
#define KERNEL (KERNEL0 * KERNEL1 * KERNEL2)
#if KIND == 0 // a = x, b = w
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  POINTS (p, N * GROUPS * F * OUT) {
    const i64 o = p % OUT, f = p / OUT % (GROUPS * F), n = p / OUT / (GROUPS * F), g = f / F;
    const i64 b0 = o / (OUT1 * OUT2) * STRIDE0 - PAD0, b1 = o / OUT2 % OUT1 * STRIDE1 - PAD1,
              b2 = o % OUT2 * STRIDE2 - PAD2;
    double sum = 0;
    for (i64 c = 0; c < C; ++c)
      for (i64 t = 0; t < KERNEL; ++t) {
        const i64 i0 = b0 + t / (KERNEL1 * KERNEL2) * DILATION0, i1 = b1 + t / KERNEL2 % KERNEL1 * DILATION1,
                  i2 = b2 + t % KERNEL2 * DILATION2;
        if (i0 >= 0 && i0 < IN0 && i1 >= 0 && i1 < IN1 && i2 >= 0 && i2 < IN2)
          sum += (double)a[((n * GROUPS + g) * C + c) * IN + (i0 * IN1 + i1) * IN2 + i2] *
                 (double)b[(f * C + c) * KERNEL + t];
      }
    y[p] = (T)sum;
  }
}
#elif KIND == 1 // a = dy, b = w
__device__ inline i64 output(i64 t, i64 stride, i64 n) {
  return t >= 0 && t % stride == 0 && t / stride < n ? t / stride : -1;
}
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  POINTS (p, N * GROUPS * C * IN) {
    const i64 i = p % IN, gc = p / IN % (GROUPS * C), n = p / IN / (GROUPS * C), g = gc / C, c = gc % C;
    const i64 i0 = i / (IN1 * IN2) + PAD0, i1 = i / IN2 % IN1 + PAD1, i2 = i % IN2 + PAD2;
    double sum = 0;
    for (i64 t = 0; t < KERNEL; ++t) {
      const i64 j0 = output(i0 - t / (KERNEL1 * KERNEL2) * DILATION0, STRIDE0, OUT0);
      const i64 j1 = output(i1 - t / KERNEL2 % KERNEL1 * DILATION1, STRIDE1, OUT1);
      const i64 j2 = output(i2 - t % KERNEL2 * DILATION2, STRIDE2, OUT2);
      if (j0 < 0 || j1 < 0 || j2 < 0)
        continue;
      for (i64 f = 0; f < F; ++f)
        sum += (double)a[((n * GROUPS + g) * F + f) * OUT + (j0 * OUT1 + j1) * OUT2 + j2] *
               (double)b[((g * F + f) * C + c) * KERNEL + t];
    }
    y[p] = (T)sum;
  }
}
#else           // a = x, b = dy; the sum over images has leaves (Leaves.cu)
extern "C" __global__ void k(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y) {
  POINTS (p, GROUPS * F * C * KERNEL) {
    const i64 t = p % KERNEL, c = p / KERNEL % C, f = p / KERNEL / C, g = f / F;
    const i64 b0 = t / (KERNEL1 * KERNEL2) * DILATION0 - PAD0, b1 = t / KERNEL2 % KERNEL1 * DILATION1 - PAD1,
              b2 = t % KERNEL2 * DILATION2 - PAD2;
    Tree tree;
    for (i64 leaf = 0; leaf < LEAVES; ++leaf) {
      double sum = 0;
      for (i64 n = leaf * (N / LEAVES); n < (leaf + 1) * (N / LEAVES); ++n)
        for (i64 o = 0; o < OUT; ++o) {
          const i64 i0 = b0 + o / (OUT1 * OUT2) * STRIDE0, i1 = b1 + o / OUT2 % OUT1 * STRIDE1,
                    i2 = b2 + o % OUT2 * STRIDE2;
          if (i0 >= 0 && i0 < IN0 && i1 >= 0 && i1 < IN1 && i2 >= 0 && i2 < IN2)
            sum += (double)a[((n * GROUPS + g) * C + c) * IN + (i0 * IN1 + i1) * IN2 + i2] *
                   (double)b[(n * GROUPS * F + f) * OUT + o];
        }
      add_leaf(tree, leaf, (V)sum);
    }
    y[p] = tree.root;
  }
}
#endif
