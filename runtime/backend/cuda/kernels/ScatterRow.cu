// The row that index number i adds to, those of a batch behind those of the batches before it; NOWHERE, behind all
// rows, where there is none. FIRST: `from` holds the indices; otherwise rows that an earlier pass has put in order.
#define NOWHERE (K)(BATCH * EXTENT)
__device__ inline K row_of(const F *__restrict__ from, i64 i) {
  if (!FIRST)
    return (K)from[i];
  const i64 index = (i64)from[i], at = (i64)((u64)index - (u64)START);
  return index >= START && at >= 0 && at < ROWS ? (K)(i / INDICES * EXTENT + at) : NOWHERE;
}
