extern "C" __global__ void __launch_bounds__(256, 4) k(const Pack *__restrict__ x, Pack *__restrict__ y) {
  POINTS (p, PLANES * OUT) {
    const Chosen best = chosen(x, PLANE(p, OUT), PIXEL(p, OUT));
    Pack pack;
    EACH (e)
      pack.e[e] = STORE(best.most[e]);
    y[p] = pack;
  }
}
