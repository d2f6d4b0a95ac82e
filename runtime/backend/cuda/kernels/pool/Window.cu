// Indices are of type I. Window o of a plane begins at base and has the taps [begin, end) inside the plane.
struct Window {
  I base[3], begin[3], end[3];
};
__device__ inline void axis(Window &w, int d, I position, I stride, I pad, I dilation, I in, I kernel) {
  const I base = position * stride - pad;
  w.base[d] = base;
  w.begin[d] = base >= 0 ? 0 : (-base - 1) / dilation + 1;
  I end = base >= in ? 0 : (in - 1 - base) / dilation + 1;
  end = end < kernel ? end : kernel;
  w.end[d] = end > w.begin[d] ? end : w.begin[d];
}
__device__ inline Window window(I o) {
  Window w;
  axis(w, 0, o / (OUT1 * OUT2), STRIDE0, PAD0, DILATION0, IN0, KERNEL0);
  axis(w, 1, o / OUT2 % OUT1, STRIDE1, PAD1, DILATION1, IN1, KERNEL1);
  axis(w, 2, o % OUT2, STRIDE2, PAD2, DILATION2, IN2, KERNEL2);
  return w;
}
#define VISIT(w, i)                                                                                                    \
  for (I r0 = w.begin[0]; r0 < w.end[0]; ++r0)                                                                         \
    for (I r1 = w.begin[1]; r1 < w.end[1]; ++r1)                                                                       \
      for (I r2 = w.begin[2],                                                                                          \
             i = ((w.base[0] + r0 * DILATION0) * IN1 + w.base[1] + r1 * DILATION1) * IN2 + w.base[2] + r2 * DILATION2; \
           r2 < w.end[2]; ++r2, i += DILATION2)
#define INSIDE(w) ((w.end[0] - w.begin[0]) * (w.end[1] - w.begin[1]) * (w.end[2] - w.begin[2]))
#define POINTS(i, n) for (I i = blockIdx.x * (I)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (I)blockDim.x)
#define OUT (OUT0 * OUT1 * OUT2)
#define IN (IN0 * IN1 * IN2)
#if LAST
#define PLANE(p, n) ((p) / ((n)*CHANNELS) * CHANNELS + (p) % CHANNELS)
#define PIXEL(p, n) ((p) / CHANNELS % (n))
#define INDEX(plane, i, n) (((plane) / CHANNELS * (n) + (i)) * CHANNELS + (plane) % CHANNELS)
#else
#define PLANE(p, n) ((p) / (n))
#define PIXEL(p, n) ((p) % (n))
#define INDEX(plane, i, n) ((plane) * (n) + (i))
#endif
// Windows [first, last] along one axis that hold input index i at some tap, whether or not the dilation hits it.
__device__ inline I first_window(I i, I stride, I pad, I dilation, I kernel) {
  const I t = i + pad - dilation * (kernel - 1);
  return t <= 0 ? 0 : (t + stride - 1) / stride;
}
__device__ inline I last_window(I i, I stride, I pad, I out) {
  const I t = i + pad;
  if (t < 0)
    return -1;
  return t / stride < out - 1 ? t / stride : out - 1;
}
__device__ inline bool hit(I i, I o, I stride, I pad, I dilation) { return (i + pad - o * stride) % dilation == 0; }
// All windows o of a plane that hold input element i, in ascending order.
#define WINDOWS_OF(i, o)                                                                                               \
  const I i0 = (i) / (IN1 * IN2), i1 = (i) / IN2 % IN1, i2 = (i) % IN2;                                                \
  for (I o0 = first_window(i0, STRIDE0, PAD0, DILATION0, KERNEL0); o0 <= last_window(i0, STRIDE0, PAD0, OUT0); ++o0)   \
    if (hit(i0, o0, STRIDE0, PAD0, DILATION0))                                                                         \
      for (I o1 = first_window(i1, STRIDE1, PAD1, DILATION1, KERNEL1); o1 <= last_window(i1, STRIDE1, PAD1, OUT1);     \
           ++o1)                                                                                                       \
        if (hit(i1, o1, STRIDE1, PAD1, DILATION1))                                                                     \
          for (I o2 = first_window(i2, STRIDE2, PAD2, DILATION2, KERNEL2), o;                                          \
               o2 <= last_window(i2, STRIDE2, PAD2, OUT2) && (o = (o0 * OUT1 + o1) * OUT2 + o2, true); ++o2)           \
            if (hit(i2, o2, STRIDE2, PAD2, DILATION2))
