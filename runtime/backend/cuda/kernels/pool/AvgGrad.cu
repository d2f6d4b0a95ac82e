extern "C" __global__ void k(const T *__restrict__ dy, T *__restrict__ dx) {
  POINTS (p, PLANES * IN) {
    const I plane = PLANE(p, IN), i = PIXEL(p, IN);
    V sum = 0;
    WINDOWS_OF (i, o) {
      const Window w = window(o);
      sum +=
          (V)((double)LOAD(dy[INDEX(plane, o, OUT)]) / (double)(INCLUDE_PAD ? KERNEL0 * KERNEL1 * KERNEL2 : INSIDE(w)));
    }
    dx[p] = STORE(sum);
  }
}
