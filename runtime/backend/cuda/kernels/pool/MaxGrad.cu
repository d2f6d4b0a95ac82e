#define EACH_WINDOW(a, d) LOOP for (I a = 0; a < WINDOWS##d; ++a)
extern "C" __global__ void __launch_bounds__(256, 4)
    k(const Choice *__restrict__ choices, const Pack *__restrict__ dy, Pack *__restrict__ dx) {
  POINTS (p, PLANES * IN) {
    const I plane = PLANE(p, IN), i = PIXEL(p, IN);
    const I i0 = i / (IN1 * IN2), i1 = i / IN2 % IN1, i2 = i % IN2;
    V sum[SIDE];
    EACH (e)
      sum[e] = 0;
    EACH_WINDOW (a0, 0)
      EACH_WINDOW (a1, 1)
        EACH_WINDOW (a2, 2) {
          const I o0 = first_window(i0, STRIDE0, PAD0, DILATION0, KERNEL0) + a0,
                  o1 = first_window(i1, STRIDE1, PAD1, DILATION1, KERNEL1) + a1,
                  o2 = first_window(i2, STRIDE2, PAD2, DILATION2, KERNEL2) + a2;
          const bool holds = o0 <= last_window(i0, STRIDE0, PAD0, OUT0) && hit(i0, o0, STRIDE0, PAD0, DILATION0) &&
                             o1 <= last_window(i1, STRIDE1, PAD1, OUT1) && hit(i1, o1, STRIDE1, PAD1, DILATION1) &&
                             o2 <= last_window(i2, STRIDE2, PAD2, OUT2) && hit(i2, o2, STRIDE2, PAD2, DILATION2);
          const I r0 = (i0 + PAD0 - o0 * STRIDE0) / DILATION0, r1 = (i1 + PAD1 - o1 * STRIDE1) / DILATION1,
                  r2 = (i2 + PAD2 - o2 * STRIDE2) / DILATION2, tap = (r0 * KERNEL1 + r1) * KERNEL2 + r2;
          const I from = INDEX(plane, holds ? (o0 * OUT1 + o1) * OUT2 + o2 : 0, OUT);
          const Choice choice = choices[from];
          const Pack pack = dy[from];
          EACH (e)
            sum[e] = holds && (I)choice.e[e] == tap ? sum[e] + LOAD(pack.e[e]) : sum[e];
        }
    Pack pack;
    EACH (e)
      pack.e[e] = STORE(sum[e]);
    dx[p] = pack;
  }
}
