//===- Sha256.h - SHA-256 and HMAC ---------------------------------------------------------------===//
//
// SHA-256 is FIPS 180-4, HMAC is RFC 2104. Ranks prove with them that they share a secret. Tests use the published
// vectors.
//
//   Digest digest = sha256("abc");
//   Digest proof = hmacSha256(secret, challenge);
//   if (!sameDigest(proof, theirs)) ...            // takes the same time wherever they differ
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_SHA256_H
#define TESSERA_RUNTIME_SUPPORT_SHA256_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::rt {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view message);
Digest hmacSha256(std::string_view key, std::string_view message);
bool sameDigest(const Digest &a, const Digest &b);
std::string hexText(const uint8_t *bytes, size_t count);

} // namespace tessera::rt

#endif
