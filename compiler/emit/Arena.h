//===- Arena.h - places in memory for things that live for a while -------------------------------===//
//
// Offline dynamic storage allocation: every block has a size and a lifetime that is known; two blocks that
// live at the same time must not overlap. The problem is NP-hard; greedy by size (Pisarchyk and Lee 2020,
// "Efficient memory management for deep neural net inference", 5.2) is near the lower bound on networks.
// Several orders are tried and the best kept.
//
//   layOut({{100, 0, 1}, {100, 2, 3}, {50, 0, 3}})  ->  offsets {64, 64, 0}, bytes 164
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_ARENA_H
#define TESSERA_COMPILER_EMIT_ARENA_H

#include <cstdint>
#include <vector>

namespace tessera::compiler {

inline constexpr uint64_t kAlignment = 64;

struct Block {
  uint64_t bytes = 0;
  int64_t first = 0, last = 0; // times at which it lives, both included
};

struct ArenaLayout {
  std::vector<uint64_t> offsets; // multiples of kAlignment, one per block
  uint64_t bytes = 0;            // the end of the last block
};

ArenaLayout layOut(const std::vector<Block> &blocks);

/// The largest sum of the (aligned) sizes of blocks that live at once: no layout is smaller. `time`, if
/// given, is set to a time at which it is reached.
uint64_t peakLoad(const std::vector<Block> &blocks, int64_t *time = nullptr);

} // namespace tessera::compiler

#endif
