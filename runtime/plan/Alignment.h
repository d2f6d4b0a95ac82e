//===- Alignment.h - where buffers may begin in an arena ------------------------------------------===//
//
//   aligned(100)      // 128: the next multiple of kAlignment
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_ALIGNMENT_H
#define TESSERA_RUNTIME_PLAN_ALIGNMENT_H

#include <cstdint>

namespace tessera::rt {

/// In bytes: every offset of a plan is a multiple of it. One cache line.
inline constexpr uint64_t kAlignment = 64;

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

} // namespace tessera::rt

#endif
