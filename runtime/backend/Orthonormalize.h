//===- Orthonormalize.h - what fills a basis that has too few directions -----------------------------===//
//
// The kernel "orthonormalize" replaces columns of which nothing is left. By what is part of its definition: ranks that
// have the same matrix must get the same basis, on any backend, and the CUDA text (cuda/kernels/Orthonormalize.cu) says
// the same again.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_ORTHONORMALIZE_H
#define TESSERA_RUNTIME_BACKEND_ORTHONORMALIZE_H

#include <cstdint>

namespace tessera::rt {

/// Of a column less than this share of its length is left: it depends on those before it. Well above what sums in
/// float32 leave of such a column.
constexpr double kNothingLeft = 0x1p-20;
/// As many columns are tried in its place. All of them depend on those before them only where there is no room.
constexpr uint32_t kOrthonormalAttempts = 8;

/// The element of a column that is tried, as if drawn from [-1, 1).
inline double orthonormalFiller(uint32_t row, uint32_t column, uint32_t attempt) {
  uint32_t h = row * 0x9e3779b9u + column * 0x85ebca6bu + attempt * 0xc2b2ae35u + 0x27d4eb2fu;
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return double(h ^ (h >> 16)) * 0x1p-31 - 1;
}

} // namespace tessera::rt

#endif
