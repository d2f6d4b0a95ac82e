// Puts the indices in the order of eight bits of their rows, and leaves equal ones in the order that they have. After a
// pass for each eight bits they lie in the order of their rows, and those of a row in their own. A block does a tile.
extern "C" __global__ void k(const F *__restrict__ from, const P *__restrict__ places, const u32 *__restrict__ counts,
                             K *__restrict__ rows, P *__restrict__ ordered) {
  __shared__ P next[256]; // where a list goes on
  __shared__ u32 lists[256];
  const u32 t = threadIdx.x;
  P earlier = 0, all = 0; // of list t: in the tiles before, and in all
#pragma unroll 8
  for (u32 tile = 0; tile < gridDim.x; ++tile) {
    const u32 n = counts[tile * 256u + t];
    earlier += tile < blockIdx.x ? n : 0u;
    all += n;
  }
  next[t] = all;
  __syncthreads();
#pragma unroll 16
  for (u32 list = 0; list < 255u; ++list)
    earlier += list < t ? next[list] : 0;
  __syncthreads();
  next[t] = earlier;
  const i64 begin = (i64)blockIdx.x * TILE, end = begin + TILE < ALL ? begin + TILE : ALL;
  for (i64 first = begin; first < end; first += 256) {
    const i64 i = first + t;
    const bool inside = i < end;
    const K row = inside ? row_of(from, i) : 0;
    const u32 list = inside ? (u32)(row >> SHIFT & 255) : 256u;
    lists[t] = list;
    __syncthreads();
    u32 before = 0, same = 0; // of this list among the threads
#pragma unroll 16
    for (u32 other = 0; other < 256u; ++other) {
      const u32 equal = lists[other] == list;
      before += other < t ? equal : 0u;
      same += equal;
    }
    if (inside) {
      const P to = next[list] + before;
      rows[to] = row;
      ordered[to] = FIRST ? (P)i : places[i];
    }
    __syncthreads();
    if (inside && before + 1u == same)
      next[list] += same;
  }
}
