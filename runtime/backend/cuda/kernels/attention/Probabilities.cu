// One block per line, that is per row of a head; BIAS_BASE adds what the batch contributes to `at`. kept: where KEEPS,
// log sum e^score of each row goes there; where KNOWN, it is there. Where DROPS, what is stored is multiplied by what
// dropout keeps.
extern "C" __global__ void k(T *__restrict__ scores, const T *__restrict__ bias, T *__restrict__ kept,
                             const M *__restrict__ keep) {
  __shared__ double shared[BLOCK];
  const int t = (int)threadIdx.x;
  for (i64 line = blockIdx.x; line < LINES; line += gridDim.x) {
    const i64 row = line % ROWS, head = line / ROWS % HEADS, batch = line / ROWS / HEADS;
    i64 at = head * BIAS_HEAD + row * BIAS_ROW;
    BIAS_BASE(void) batch;
    (void)at;
    const i64 inside = INSIDE;
    T *p = scores + line * KEYS;
    double top = LOWEST;
    for (i64 j = t; j < KEYS; j += BLOCK) {
      p[j] = (T)((j < inside ? SCALE * (double)p[j] : OUTSIDE) + BIAS(at + j * BIAS_KEY));
      top = op_max(top, (double)p[j]);
    }
#if KNOWN
    const double known = (double)kept[line];
    if (known < LARGEST && known > -LARGEST) {
      for (i64 j = t; j < KEYS; j += BLOCK)
        p[j] = op_exp((T)((double)p[j] - known));
      continue;
    }
#endif
    top = total(top, shared, t, true);
    double mine = 0;
    for (i64 j = t; j < KEYS; j += BLOCK)
      mine += (double)op_exp((T)((double)p[j] - top));
    const double sum = total(mine, shared, t, false);
    for (i64 j = t; j < KEYS; j += BLOCK)
#if DROPS
      p[j] = (T)((double)op_exp((T)((double)p[j] - top)) / sum * ((double)KEEP(line * KEYS + j) * KEEP_SCALE));
#else
      p[j] = (T)((double)op_exp((T)((double)p[j] - top)) / sum);
#endif
#if KEEPS
    if (t == 0)
      kept[line] = (T)(top + op_log(sum));
#endif
  }
}
