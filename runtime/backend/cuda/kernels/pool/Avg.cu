extern "C" __global__ void k(const T *__restrict__ x, T *__restrict__ y) {
  POINTS (p, PLANES * OUT) {
    const I plane = PLANE(p, OUT);
    const Window w = window(PIXEL(p, OUT));
    double sum = 0;
    VISIT (w, i)
      sum += (double)LOAD(x[INDEX(plane, i, IN)]);
    const I n = INSIDE(w);
    y[p] = STORE(n == 0 ? (V)0 : (V)(sum / (double)(INCLUDE_PAD ? KERNEL0 * KERNEL1 * KERNEL2 : n)));
  }
}
