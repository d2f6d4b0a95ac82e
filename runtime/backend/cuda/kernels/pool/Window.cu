// Window o of a plane begins at base and has the taps [begin, end) inside the plane.
struct Window {
  i64 base[3], begin[3], end[3];
};
__device__ inline void axis(Window &w, int d, i64 position, i64 stride, i64 pad, i64 dilation, i64 in, i64 kernel) {
  const i64 base = position * stride - pad;
  w.base[d] = base;
  w.begin[d] = base >= 0 ? 0 : (-base - 1) / dilation + 1;
  i64 end = base >= in ? 0 : (in - 1 - base) / dilation + 1;
  end = end < kernel ? end : kernel;
  w.end[d] = end > w.begin[d] ? end : w.begin[d];
}
__device__ inline Window window(i64 o) {
  Window w;
  axis(w, 0, o / (OUT1 * OUT2), STRIDE0, PAD0, DILATION0, IN0, KERNEL0);
  axis(w, 1, o / OUT2 % OUT1, STRIDE1, PAD1, DILATION1, IN1, KERNEL1);
  axis(w, 2, o % OUT2, STRIDE2, PAD2, DILATION2, IN2, KERNEL2);
  return w;
}
#define VISIT(w, i)                                                                                                    \
  for (i64 r0 = w.begin[0]; r0 < w.end[0]; ++r0)                                                                       \
    for (i64 r1 = w.begin[1]; r1 < w.end[1]; ++r1)                                                                     \
      for (i64 r2 = w.begin[2], i = ((w.base[0] + r0 * DILATION0) * IN1 + w.base[1] + r1 * DILATION1) * IN2 +          \
                                    w.base[2] + r2 * DILATION2;                                                        \
           r2 < w.end[2]; ++r2, i += DILATION2)
#define INSIDE(w) ((w.end[0] - w.begin[0]) * (w.end[1] - w.begin[1]) * (w.end[2] - w.begin[2]))
#define POINTS(i, n) for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (i64)blockDim.x)
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
// The first maximum of a window, the first NaN where there is one; -1 if the window is empty.
__device__ inline i64 chosen(const T *x, i64 plane, i64 o) {
  const Window w = window(o);
  i64 best = -1;
  V most = 0;
  VISIT (w, i) {
    const V v = LOAD(x[INDEX(plane, i, IN)]);
    if (best < 0 || v > most || (v != v && most == most)) {
      best = i;
      most = v;
    }
  }
  return best;
}
// Windows [first, last] along one axis that hold input index i at some tap, whether or not the dilation hits it.
__device__ inline i64 first_window(i64 i, i64 stride, i64 pad, i64 dilation, i64 kernel) {
  const i64 t = i + pad - dilation * (kernel - 1);
  return t <= 0 ? 0 : (t + stride - 1) / stride;
}
__device__ inline i64 last_window(i64 i, i64 stride, i64 pad, i64 out) {
  const i64 t = i + pad;
  if (t < 0)
    return -1;
  return t / stride < out - 1 ? t / stride : out - 1;
}
__device__ inline bool hit(i64 i, i64 o, i64 stride, i64 pad, i64 dilation) {
  return (i + pad - o * stride) % dilation == 0;
}
// All windows o of a plane that hold input element i, in ascending order.
#define WINDOWS_OF(i, o)                                                                                               \
  const i64 i0 = (i) / (IN1 * IN2), i1 = (i) / IN2 % IN1, i2 = (i) % IN2;                                              \
  for (i64 o0 = first_window(i0, STRIDE0, PAD0, DILATION0, KERNEL0); o0 <= last_window(i0, STRIDE0, PAD0, OUT0); ++o0) \
    if (hit(i0, o0, STRIDE0, PAD0, DILATION0))                                                                         \
      for (i64 o1 = first_window(i1, STRIDE1, PAD1, DILATION1, KERNEL1); o1 <= last_window(i1, STRIDE1, PAD1, OUT1);   \
           ++o1)                                                                                                       \
        if (hit(i1, o1, STRIDE1, PAD1, DILATION1))                                                                     \
          for (i64 o2 = first_window(i2, STRIDE2, PAD2, DILATION2, KERNEL2), o;                                        \
               o2 <= last_window(i2, STRIDE2, PAD2, OUT2) && (o = (o0 * OUT1 + o1) * OUT2 + o2, true); ++o2)           \
            if (hit(i2, o2, STRIDE2, PAD2, DILATION2))
