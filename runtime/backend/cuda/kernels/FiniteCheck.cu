// With the exponent's bits e of a number w: ~w & e is 0 where all of them are set, and otherwise at least the lowest of
// them, so that adding all bits below the sign carries into the sign and never out of it.
extern "C" __global__ void __launch_bounds__(256) k(const u64 *pieces, u32 *found) {
  const u64 *piece = pieces + (u64)blockIdx.x * 4;
  const u64 *words = (const u64 *)piece[0];
  const u64 bytes = piece[1], exponent = piece[2], low = piece[3];
  const u32 whole = (u32)(bytes / 8);
  u64 finite = ~0ull;
  for (u32 i = threadIdx.x; i < whole; i += 256u)
    finite &= (~words[i] & exponent) + low;
  if (threadIdx.x == 0 && bytes % 8) {
    u64 last = 0;
    for (u32 i = 0; i < (u32)(bytes % 8); ++i)
      last |= (u64)((const u8 *)(words + whole))[i] << (8 * i);
    finite &= (~last & exponent) + low;
  }
  if (~finite & ~low)
    *found = 1;
}
