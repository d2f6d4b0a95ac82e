#include "compiler/emit/Arena.h"

#include "dialects/graph/MemoryLoad.h"

#include <algorithm>
#include <numeric>

namespace tessera::compiler {

static uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Places the blocks in the given order, each in the smallest gap that is large enough, or else at the end.
static ArenaLayout place(const std::vector<Block> &blocks, const std::vector<size_t> &order) {
  ArenaLayout layout;
  layout.offsets.resize(blocks.size());
  std::vector<size_t> placed; // by offset
  for (size_t b : order) {
    const Block &block = blocks[b];
    uint64_t end = 0, best = 0, bestGap = ~uint64_t(0);
    bool found = false;
    for (size_t other : placed) {
      if (blocks[other].last < block.first || block.last < blocks[other].first)
        continue;
      uint64_t offset = layout.offsets[other];
      if (offset > end && offset - end >= block.bytes && offset - end < bestGap) {
        bestGap = offset - end;
        best = end;
        found = true;
      }
      end = std::max(end, aligned(offset + blocks[other].bytes));
    }
    uint64_t offset = found ? best : end;
    layout.offsets[b] = offset;
    layout.bytes = std::max(layout.bytes, offset + block.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](uint64_t o, size_t p) { return o < layout.offsets[p]; }),
                  b);
  }
  return layout;
}

ArenaLayout layOut(const std::vector<Block> &blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto length = [&](size_t b) { return double(blocks[b].last - blocks[b].first + 1); };
  ArenaLayout best;
  bool first = true;
  auto attempt = [&](auto before) {
    std::vector<size_t> sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(), before);
    ArenaLayout layout = place(blocks, sorted);
    if (first || layout.bytes < best.bytes)
      best = std::move(layout);
    first = false;
  };
  attempt([&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  attempt(
      [&](size_t a, size_t b) { return double(blocks[a].bytes) * length(a) > double(blocks[b].bytes) * length(b); });
  attempt([&](size_t a, size_t b) {
    return std::pair(length(a), blocks[a].bytes) > std::pair(length(b), blocks[b].bytes);
  });
  return best;
}

uint64_t peakLoad(const std::vector<Block> &blocks, int64_t *time) {
  graph::MemoryLoad load;
  for (const Block &block : blocks)
    load.add(block.first, block.last, int64_t(aligned(block.bytes)));
  const graph::MemoryLoad::Peak peak = load.peak();
  if (time && peak.bytes > 0)
    *time = peak.time;
  return uint64_t(peak.bytes);
}

} // namespace tessera::compiler
