#include "runtime/backend/cpu/product/PairRows.h"

#include <immintrin.h>

namespace tessera::rt::avx512_bf16 {
namespace {

__mmask32 first(int64_t n) { return n >= 32 ? ~__mmask32(0) : (__mmask32(1) << n) - 1; }

void interleave(float *to, int64_t toStride, const uint16_t *from, int64_t fromStride, int64_t terms, int64_t n) {
  alignas(64) static constexpr uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (int64_t term = 0; term < terms; term += 2, to += toStride, from += 2 * fromStride)
    for (int64_t i = 0; i < n; i += 32) {
      const __mmask32 some = first(n - i), second = term + 1 < terms ? some : 0;
      const __m512i a = _mm512_maskz_loadu_epi16(some, from + i);
      const __m512i b = _mm512_maskz_loadu_epi16(second, from + fromStride + i);
      _mm512_mask_storeu_epi32(to + i, __mmask16(first(n - i)), _mm512_permutex2var_epi16(a, low, b));
      if (n - i > 16)
        _mm512_mask_storeu_epi32(to + i + 16, __mmask16(first(n - i - 16)), _mm512_permutex2var_epi16(a, high, b));
    }
}

void narrow(uint16_t *to, const float *from, float scale, int64_t n) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < n; i += 16) {
    const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(__mmask16(first(n - i)), from + i), factor);
    _mm256_mask_storeu_epi16(to + i, __mmask16(first(n - i + n % 2)), (__m256i)_mm512_cvtneps_pbh(x));
  }
}

void multiply(float *x, float scale, int64_t n) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 some = __mmask16(first(n - i));
    _mm512_mask_storeu_ps(x + i, some, _mm512_mul_ps(_mm512_maskz_loadu_ps(some, x + i), factor));
  }
}

float dot(const uint16_t *a, const uint16_t *b, int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += 32) {
    const __mmask32 some = first(n - i);
    sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_maskz_loadu_epi16(some, a + i),
                           (__m512bh)_mm512_maskz_loadu_epi16(some, b + i));
  }
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum);
  float total = 0;
  for (const float lane : lanes)
    total += lane;
  return total;
}

} // namespace

extern const PairRows kPairRows;
const PairRows kPairRows = {interleave, narrow, multiply, dot};

} // namespace tessera::rt::avx512_bf16
