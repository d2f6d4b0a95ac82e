extern "C" __global__ void __launch_bounds__(256, 4) k(const Pack *__restrict__ x, Choice *__restrict__ choices) {
  POINTS (p, PLANES * OUT) {
    const Chosen best = chosen(x, PLANE(p, OUT), PIXEL(p, OUT));
    Choice choice;
    EACH (e)
      choice.e[e] = (TAP)best.tap[e];
    choices[p] = choice;
  }
}
