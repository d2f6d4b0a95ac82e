// What the kernels for attention say of tiles; the products of tiles are in ScalarProducts.cu or TensorProducts.cu.
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
__device__ inline i64 inside(i64 row) { return INSIDE; }

// Turns a product into a score.
__device__ inline A score(A product, i64 row, i64 key, const B *bias) {
  return (key < inside(row) ? (A)SCALE * product : (A)OUTSIDE) + (A)(BIAS(row * BIAS_ROW + key * BIAS_KEY));
}
// What dropout makes of a probability, or of its gradient; `keep` begins with the head's first score.
__device__ inline A dropped(A p, i64 row, i64 key, const M *keep) {
#if HAS_KEEP
  return p * ((A)KEEP(row * KEYS + key) * (A)KEEP_SCALE);
#else
  return p;
#endif
}
__device__ inline const M *keep_of(const M *keep, i64 batch, i64 head) {
  return HAS_KEEP ? keep + (batch * HEADS + head) * ROWS * KEYS : keep;
}
__device__ inline const B *bias_of(const B *bias, i64 batch, i64 head) {
  i64 at = head * BIAS_HEAD;
  BIAS_BASE(void) batch;
  return bias + at;
}
