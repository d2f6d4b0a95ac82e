#include "runtime/support/InitialValues.h"

#include <array>
#include <cmath>
#include <numbers>

namespace tessera::rt {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox(Words c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

struct Pair {
  double u, v; // 53 random bits each; u in (0, 1], so that its logarithm is finite, v in [0, 1)
};

Pair draw(uint64_t seed, uint64_t stream, uint64_t element) {
  Words w = philox({uint32_t(element), uint32_t(element >> 32), uint32_t(stream), uint32_t(stream >> 32)},
                   uint32_t(seed), uint32_t(seed >> 32));
  return {double((uint64_t(w[0]) << 21 ^ w[1] >> 11) + 1) * 0x1p-53,
          double(uint64_t(w[2]) << 21 ^ w[3] >> 11) * 0x1p-53};
}

} // namespace

/// The hash FNV-1a.
uint64_t streamOf(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325;
  for (char c : name)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

double uniformValue(uint64_t seed, uint64_t stream, uint64_t element) { return 2 * draw(seed, stream, element).v - 1; }

double normalValue(uint64_t seed, uint64_t stream, uint64_t element) {
  auto [u, v] = draw(seed, stream, element);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v); // the method of Box and Muller
}

} // namespace tessera::rt
