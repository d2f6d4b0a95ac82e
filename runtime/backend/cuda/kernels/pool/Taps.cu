// Maxima are computed for SIDE neighbouring channels of a pixel at a time, which one access moves: PLANES and CHANNELS
// count such packs. A window's taps are numbered in their order; number TAPS is none. Loops over taps and over windows
// have constant bounds, and what lies outside is read elsewhere and left out, so that all loads are on their way
// together.
template <typename E, int N> struct alignas(N * sizeof(E)) Side { E e[N]; };
typedef Side<T, SIDE> Pack;
typedef Side<TAP, SIDE> Choice; // of each channel: the number of a tap
#define TAPS (KERNEL0 * KERNEL1 * KERNEL2)
#define EACH_TAP(r, d) LOOP for (I r = 0; r < (IN > 0 ? KERNEL##d : 0); ++r)
#define EACH(e) _Pragma("unroll") for (int e = 0; e < SIDE; ++e)
// The first maximum of a window, the first NaN where there is one; -infinity if the window is empty.
struct Chosen {
  V most[SIDE];
  I tap[SIDE];
};
__device__ inline Chosen chosen(const Pack *x, I plane, I o) {
  Chosen best;
  EACH (e) {
    best.most[e] = (V)__longlong_as_double((i64)0xfff0000000000000ull);
    best.tap[e] = TAPS;
  }
  const I base0 = o / (OUT1 * OUT2) * STRIDE0 - PAD0, base1 = o / OUT2 % OUT1 * STRIDE1 - PAD1,
          base2 = o % OUT2 * STRIDE2 - PAD2;
  EACH_TAP (r0, 0)
    EACH_TAP (r1, 1)
      EACH_TAP (r2, 2) {
        const I i0 = base0 + r0 * DILATION0, i1 = base1 + r1 * DILATION1, i2 = base2 + r2 * DILATION2;
        const bool inside = i0 >= 0 && i0 < IN0 && i1 >= 0 && i1 < IN1 && i2 >= 0 && i2 < IN2;
        const Pack pack = x[INDEX(plane, inside ? (i0 * IN1 + i1) * IN2 + i2 : 0, IN)];
        EACH (e) {
          const V v = LOAD(pack.e[e]), most = best.most[e];
          const bool more = inside & ((best.tap[e] == TAPS) | (!(v <= most) & (most == most))); // or the first NaN
          best.most[e] = more ? v : most;
          best.tap[e] = more ? (r0 * KERNEL1 + r1) * KERNEL2 + r2 : best.tap[e];
        }
      }
  return best;
}
