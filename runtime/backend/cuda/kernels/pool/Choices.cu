extern "C" __global__ void k(const T *__restrict__ x, i64 *__restrict__ choices) {
  POINTS (p, PLANES * OUT)
    choices[p] = chosen(x, PLANE(p, OUT), PIXEL(p, OUT));
}
