//===- Arena.h - offsets in memory for blocks with known lifetimes -------------------------------===//
//
// This is offline dynamic storage allocation: every block has a known size and lifetime, and two blocks that live at
// the same time must not overlap. The problem is NP-hard. On networks, greedy by size comes near the lower bound
// (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, section 5.2). The function
// tries several orders and keeps the best layout.
//
//   layOut({{100, 0, 1}, {100, 2, 3}, {50, 0, 3}})  ->  offsets {64, 64, 0}, bytes 164
//
// Rows of blocks lie side by side, each at the next multiple of kAlignment behind the one before:
//
//   layOut({{100, 0, 1}, {100, 2, 3}, {50, 0, 3}}, {{0, 2}})  ->  offsets {0, 0, 128}, bytes 178
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_ARENA_H
#define TESSERA_COMPILER_EMIT_ARENA_H

#include "runtime/plan/Alignment.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::compiler {

using rt::aligned, rt::kAlignment;

struct Block {
  uint64_t bytes = 0;
  int64_t first = 0, last = 0; // times at which it lives, both included
};

struct ArenaLayout {
  std::vector<uint64_t> offsets; // multiples of kAlignment, one per block
  uint64_t bytes = 0;            // the end of the last block
};

/// A row has two blocks or more, and a block is in at most one row.
ArenaLayout layOut(const std::vector<Block> &blocks, const std::vector<std::vector<size_t>> &rows = {});

/// The blocks, of which each lives until the time that is wanted for it, where that is later than its end, and at most
/// `more` bytes more live at once than at the peak without that.
///
///   keepLonger({{64, 0, 0}, {64, 1, 2}, {64, 2, 2}, {64, 3, 3}}, {3, 3, 0, 0})
///   ->  {{64, 0, 0}, {64, 1, 3}, {64, 2, 2}, {64, 3, 3}}, since two blocks live at time 2 anyway
std::vector<Block> keepLonger(const std::vector<Block> &blocks, const std::vector<int64_t> &wanted, uint64_t more = 0);

/// The largest sum of the aligned sizes of blocks that live at once, in bytes. No layout is smaller. If `time` is
/// given, it is set to a time at which the sum is reached.
uint64_t peakLoad(const std::vector<Block> &blocks, int64_t *time = nullptr);

} // namespace tessera::compiler

#endif
