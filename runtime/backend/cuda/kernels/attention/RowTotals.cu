// The totals of every row over the threads that share it. All of these threads get the same numbers.
__device__ inline void totals(A (&v)[HELD_ROWS], bool largest, Shared &h, int t) {
  __syncthreads();
  EACH (i, HELD_ROWS)
    h.total[row_at(t, i)][sharer(t)] = v[i];
  __syncthreads();
  EACH (i, HELD_ROWS) {
    const A *parts = h.total[row_at(t, i)];
    A r = parts[0];
    for (int k = 1; k < SHARERS; ++k)
      r = largest ? op_max(r, parts[k]) : r + parts[k];
    v[i] = r;
  }
}
