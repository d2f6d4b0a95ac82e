//===- Random.h - counter-based random numbers and permutations -------------------------------===//
//
// Nothing here has state: a value is a hash of what it is for, so every rank computes the part it
// needs and all ranks agree.
//
//   double u = unitInterval(hash(seed, epoch, sample));      // in [0, 1)
//   Permutation order(50000, hash(seed, epoch));
//   order(i)                                    // the sample at position i of the epoch
//
// The hash is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014) over each word in turn. The permutation is a Feistel network on the smallest
// even number of bits that holds n, walked until it lands below n (Black, Rogaway: Ciphers with
// arbitrary finite domains, 2002): no table, any position at once.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_RANDOM_H
#define TESSERA_RUNTIME_DATA_RANDOM_H

#include <bit>
#include <cstdint>

namespace tessera::rt {

inline uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <typename... Words> uint64_t hash(Words... words) {
  uint64_t h = 0;
  ((h = scramble(h ^ uint64_t(words))), ...);
  return h;
}

/// [0, 1), 53 bits.
inline double unitInterval(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

/// Uniform in [0, n), n >= 1. The bias of n / 2^64 does not matter here.
inline int64_t below(uint64_t bits, int64_t n) {
  return int64_t(uint64_t((static_cast<unsigned __int128>(bits) * uint64_t(n)) >> 64));
}

/// Mean 0, variance 1, nearly normal: the sum of four uniform numbers (Irwin-Hall). It needs no transcendental
/// function, so it is the same on every machine.
inline float nearlyNormal(uint64_t bits) {
  const auto sum = float((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
  return (sum - 131070.0f) * (1.7320508f / 65536.0f);
}

class Permutation {
public:
  /// A permutation of 0 .. n-1, n >= 1.
  Permutation(int64_t n, uint64_t key) : n_(uint64_t(n)), key_(key) {
    const int bits = std::bit_width(n_ - 1);
    half_ = bits < 2 ? 1 : (bits + 1) / 2;
    mask_ = (uint64_t{1} << half_) - 1;
  }
  int64_t operator()(int64_t i) const {
    uint64_t x = uint64_t(i);
    do {
      uint64_t left = x >> half_, right = x & mask_;
      for (uint64_t round = 0; round < 6; ++round) {
        const uint64_t next = left ^ (hash(key_, round, right) & mask_);
        left = right;
        right = next;
      }
      x = left << half_ | right;
    } while (x >= n_); // a cycle of the network comes back below n
    return int64_t(x);
  }

private:
  uint64_t n_, key_, mask_;
  int half_;
};

} // namespace tessera::rt

#endif
