// Writes the windows of a convolution as rows of a matrix: one for each point of the result, with a window's elements
// in the order in which a filter with channels last lies in memory, and zeros up to a multiple of eight elements.
//
// A thread writes the same eight neighbouring elements of several rows, so that it finds once where in a window they
// lie. Lines of an image are one behind the other, and a line of a window is one piece of such a line.
struct alignas(16) Piece {
  u32 pair[4];
};
#define LINE (IN2 * C)    // elements of a line of an image
#define RUN (KERNEL2 * C) // elements of a line of a window
#define COLUMNS (KERNEL0 * KERNEL1 * RUN)
#define PIECES ((COLUMNS + 7) / 8)
#define POINTS (N * OUT0 * OUT1 * OUT2)
#define INSIDE(d, at) ((at) >= 0 && (at) < IN##d - (KERNEL##d - 1) * DILATION##d)
#define KEPT(e) ((e) < COLUMNS % 8 ? 0xffffu << (e) % 2 * 16 : 0u) // of the last piece
#define EACH(e) _Pragma("unroll") for (int e = 0; e < 8; ++e)
extern "C" __global__ void __launch_bounds__(256, 4) k(const u16 *__restrict__ x, Piece *__restrict__ to) {
  const u32 thread = blockIdx.x * 256u + threadIdx.x, piece = thread % PIECES; // threads are a multiple of PIECES
  const bool whole = piece + 1u < PIECES || COLUMNS % 8 == 0;
  int plane[8], line[8], place[8]; // from a window's begin; behind the last column as there
  int offset[8];                   // the same in elements
  u32 at = piece * 8u % RUN, l = piece * 8u / RUN % KERNEL1, p = piece * 8u / (RUN * KERNEL1);
  EACH (e) {
    plane[e] = (int)p * DILATION0;
    line[e] = (int)l * DILATION1;
    place[e] = DILATION2 == 1 ? (int)at : (int)(at / C) * (DILATION2 * C) + (int)(at % C);
    offset[e] = (plane[e] * IN1 + line[e]) * LINE + place[e];
    if (whole || e + 1 < COLUMNS % 8) {
      const bool end = at + 1u == RUN, last = end && l + 1u == KERNEL1;
      at = end ? 0u : at + 1u;
      l = last ? 0u : end ? l + 1u : l;
      p = last ? p + 1u : p;
    }
  }
  for (u32 point = thread / PIECES; point < POINTS; point += APART) {
    const u32 row = point / OUT2, stack = row / OUT1, n = stack / OUT0;
    const int p0 = (int)(stack - n * OUT0) * STRIDE0 - PAD0, p1 = (int)(row - stack * OUT1) * STRIDE1 - PAD1,
              p2 = (int)(point - row * OUT2) * STRIDE2 - PAD2;
    const int begin = (((int)n * IN0 + p0) * IN1 + p1) * LINE + p2 * C;
    u32 v[8];
    if (INSIDE(0, p0) && INSIDE(1, p1) && INSIDE(2, p2)) { // most windows: no condition stands between the loads
      EACH (e)
        v[e] = x[(u32)(begin + offset[e])];
    } else {
      EACH (e) {
        const bool inside = (u32)(p0 + plane[e]) < IN0 && (u32)(p1 + line[e]) < IN1 && (u32)(p2 * C + place[e]) < LINE;
        v[e] = inside ? x[(u32)(begin + offset[e])] : (u16)0;
      }
    }
    Piece eight;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 kept = whole ? 0xffffffffu : KEPT(2 * i) | KEPT(2 * i + 1);
      eight.pair[i] = (v[2 * i] | v[2 * i + 1] << 16) & kept;
    }
    to[point * PIECES + piece] = eight;
  }
}
