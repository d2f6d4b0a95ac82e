#include "runtime/support/Sha256.h"

#include <bit>
#include <cstring>

namespace tessera::rt {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct Hash {
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  void block(const uint8_t *p) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; ++i)
      w[i] = uint32_t(p[4 * i]) << 24 | uint32_t(p[4 * i + 1]) << 16 | uint32_t(p[4 * i + 2]) << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    std::memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; ++i) {
      const uint32_t e = s[4], a = s[0];
      const uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                          kRound[i] + w[i];
      const uint32_t t2 =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      std::memmove(s + 1, s, 7 * sizeof *s);
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i)
      h[i] += s[i];
  }
};

} // namespace

Digest sha256(std::string_view message) {
  Hash hash;
  const auto *bytes = reinterpret_cast<const uint8_t *>(message.data());
  size_t at = 0;
  for (; at + 64 <= message.size(); at += 64)
    hash.block(bytes + at);
  // Padding (FIPS 180-4, 5.1.1): the rest of the message, a one bit, zeros, and the message's length in bits.
  uint8_t last[128] = {};
  const size_t rest = message.size() - at, end = rest < 56 ? 64 : 128;
  if (rest > 0)
    std::memcpy(last, bytes + at, rest);
  last[rest] = 0x80;
  const uint64_t bits = uint64_t(message.size()) * 8;
  for (int i = 0; i < 8; ++i)
    last[end - 1 - size_t(i)] = uint8_t(bits >> (8 * i));
  for (size_t i = 0; i < end; i += 64)
    hash.block(last + i);
  Digest digest;
  for (size_t i = 0; i < 32; ++i)
    digest[i] = uint8_t(hash.h[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest hmacSha256(std::string_view key, std::string_view message) {
  std::string block(64, '\0');
  if (key.size() > block.size()) {
    const Digest digest = sha256(key);
    std::memcpy(block.data(), digest.data(), digest.size());
  } else if (!key.empty()) {
    std::memcpy(block.data(), key.data(), key.size());
  }
  std::string inner = block, outer = block;
  for (size_t i = 0; i < block.size(); ++i) {
    inner[i] = char(inner[i] ^ 0x36);
    outer[i] = char(outer[i] ^ 0x5c);
  }
  const Digest digest = sha256(inner.append(message));
  return sha256(outer.append(reinterpret_cast<const char *>(digest.data()), digest.size()));
}

bool sameDigest(const Digest &a, const Digest &b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= unsigned(a[i] ^ b[i]);
  return difference == 0;
}

std::string hexText(const uint8_t *bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    for (int nibble : {bytes[i] >> 4, bytes[i] & 15})
      text += "0123456789abcdef"[nibble];
  return text;
}

} // namespace tessera::rt
