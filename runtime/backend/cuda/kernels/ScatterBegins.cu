// Where the list of each row begins: the sum of the counts before it. A block does one batch, and clears the counts.
extern "C" __global__ void k(u32 *__restrict__ counts, u32 *__restrict__ begins) {
  __shared__ u32 sums[256];
  const i64 chunk = (EXTENT + 255) / 256, batch = blockIdx.x;
  const i64 first = (i64)threadIdx.x * chunk, last = first + chunk < EXTENT ? first + chunk : EXTENT;
  counts += batch * EXTENT;
  begins += batch * (EXTENT + 1);
  u32 sum = 0;
  for (i64 e = first; e < last; ++e)
    sum += counts[e];
  sums[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (u32 t = 0; t < threadIdx.x; ++t)
    sum += sums[t];
  for (i64 e = first; e < last; ++e) {
    begins[e] = sum;
    sum += counts[e];
    counts[e] = 0;
  }
  if (threadIdx.x == 255u)
    begins[EXTENT] = sum;
}
