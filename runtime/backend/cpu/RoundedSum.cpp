#include "runtime/backend/cpu/RoundedSum.h"

#include "runtime/backend/Half.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/fused/VectorOps.h"

#include <algorithm>
#include <array>

namespace tessera::rt {

void addRounded(plan::DType dtype, std::byte *y, const std::byte *a, const std::byte *b, int64_t elements) {
  const VectorFn add = vectorOps().find(VectorOp::Add, 0);
  if (dtype == plan::F32)
    return add(y, a, b, nullptr, elements);
  const VectorFn load = vectorOps().find(VectorOp::LoadBf16, 0), store = vectorOps().find(VectorOp::StoreBf16, 0);
  constexpr int64_t kStrip = 1024; // numbers that the first cache holds
  std::array<float, size_t(kStrip)> left, right;
  for (int64_t i = 0; i < elements; i += kStrip) {
    const int64_t n = std::min(kStrip, elements - i);
    load(left.data(), reinterpret_cast<const Bfloat16 *>(a) + i, nullptr, nullptr, n);
    load(right.data(), reinterpret_cast<const Bfloat16 *>(b) + i, nullptr, nullptr, n);
    add(right.data(), left.data(), right.data(), nullptr, n);
    store(reinterpret_cast<Bfloat16 *>(y) + i, right.data(), nullptr, nullptr, n);
  }
}

void addTree(plan::DType dtype, std::byte *y, std::byte *others, size_t apart, int64_t count, int64_t elements,
             int threads) {
  constexpr int64_t kStrip = 1024;
  const auto array = [&](int64_t i) { return i == 0 ? y : others + size_t(i - 1) * apart; };
  if (count == 1)
    return;
  parallelFor(threads, (elements + kStrip - 1) / kStrip, [&](int64_t first, int64_t last) {
    for (int64_t i = first * kStrip; i < std::min(last * kStrip, elements); i += kStrip) {
      const size_t at = size_t(i) * bytesPerElement(dtype);
      for (int64_t width = 1; width < count; width *= 2)
        for (int64_t a = 0; a < count; a += 2 * width)
          addRounded(dtype, array(a) + at, array(a) + at, array(a + width) + at, std::min(kStrip, elements - i));
    }
  });
}

} // namespace tessera::rt
