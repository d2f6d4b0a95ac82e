//===- Sha256.h - SHA-256 and HMAC ---------------------------------------------------------------===//
//
// FIPS 180-4 and RFC 2104, for the ranks' proof that they share a secret; tested with the published vectors.
//
//   Digest digest = sha256("abc");
//   Digest proof = hmacSha256(secret, challenge);
//   if (!sameDigest(proof, theirs)) ...            // takes as long wherever they differ
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
