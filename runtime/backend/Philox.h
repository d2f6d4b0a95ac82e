//===- Philox.h - counter-based random numbers ------------------------------------------------===//
//
// Philox 4x32-10 of Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). A number depends only on (seed, stream, step, global element index), so that a mask does
// not depend on how its tensor is sharded. A counter gives four words, which are the numbers of four
// neighbouring elements: element i has word i mod 4 of counter i / 4.
//
//   uniform(0, 0, 0) == 0.39904642f   // first output word for all zeros: 0x6627e8d5
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_PHILOX_H
#define TESSERA_RUNTIME_BACKEND_PHILOX_H

#include <array>
#include <cstdint>

namespace tessera::rt {

/// The output words of Philox 4x32-10.
inline std::array<uint32_t, 4> philox(uint64_t key, uint64_t counterLow, uint64_t counterHigh) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  uint32_t c0 = uint32_t(counterLow), c1 = uint32_t(counterLow >> 32);
  uint32_t c2 = uint32_t(counterHigh), c3 = uint32_t(counterHigh >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
    uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    uint32_t n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c1 = uint32_t(p1);
    c3 = uint32_t(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// The random operator's key of (seed, stream).
inline uint64_t philoxKey(uint64_t seed, uint64_t stream) { return seed ^ (stream << 32); }

/// Uniform in [0, 1), a multiple of 2^-24: exact in F32.
inline float uniform(uint64_t key, uint64_t index, uint64_t step) {
  return float(philox(key, index / 4, step)[index % 4] >> 8) * 0x1p-24f;
}

} // namespace tessera::rt

#endif
