#include "runtime/backend/Finite.h"

#include "runtime/backend/Parallel.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>

namespace tessera::rt {
namespace {

// Without its sign an infinity is the pattern `kInfinity`, a NaN a larger one, anything else a smaller one. The
// largest pattern therefore tells what is there; it needs no branch, and its loop vectorises: with signed numbers on
// the oldest processors, too.
template <typename Bits, Bits kInfinity> struct Pattern {
  static_assert(std::is_signed_v<Bits>);
  static constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();

  static Bits largest(const void *data, int64_t begin, int64_t end) {
    const Bits *x = static_cast<const Bits *>(data);
    Bits most = 0;
    for (int64_t i = begin; i < end; ++i)
      most = std::max<Bits>(most, static_cast<Bits>(x[i] & kMagnitude));
    return most;
  }

  static NonFinite find(const void *data, int64_t count, int threads) {
    // Every thread gets a part, and no part is smaller than a thread is worth.
    const int used = int(std::clamp<int64_t>(count >> 16, 1, threads));
    std::atomic<bool> nan = false, infinity = false;
    parallelFor(used, count, [&](int64_t begin, int64_t end) {
      const Bits most = largest(data, begin, end);
      if (most > kInfinity)
        nan = true;
      if (most == kInfinity)
        infinity = true;
    });
    return {nan, infinity};
  }
};

} // namespace

NonFinite nonFinite(const void *data, plan::DType type, size_t count, int threads) {
  const auto n = int64_t(count);
  switch (type) {
  case plan::F32:
    return Pattern<int32_t, 0x7f800000>::find(data, n, threads);
  case plan::F64:
    return Pattern<int64_t, 0x7ff0000000000000>::find(data, n, threads);
  case plan::F16:
    return Pattern<int16_t, 0x7c00>::find(data, n, threads);
  case plan::BF16:
    return Pattern<int16_t, 0x7f80>::find(data, n, threads);
  default:
    return {};
  }
}

} // namespace tessera::rt
