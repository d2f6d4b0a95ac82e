extern "C" __global__ void k(const i64 *__restrict__ choices, const T *__restrict__ dy, T *__restrict__ dx) {
  POINTS (p, PLANES * IN) {
    const i64 plane = PLANE(p, IN), i = PIXEL(p, IN);
    V sum = 0;
    WINDOWS_OF (i, o)
      if (choices[INDEX(plane, o, OUT)] == i)
        sum += LOAD(dy[INDEX(plane, o, OUT)]);
    dx[p] = STORE(sum);
  }
}
