#include "compiler/emit/Arena.h"

#include "dialects/graph/flow/MemoryLoad.h"

#include <algorithm>
#include <numeric>

namespace tessera::compiler {

namespace {

/// What is placed as a whole: a row of blocks, or one block.
struct Piece {
  std::vector<size_t> blocks;
  std::vector<uint64_t> starts; // of every block in the piece
  uint64_t bytes = 0;
  double area = 0; // bytes times the times at which they live
  int64_t length = 0;
};

std::vector<Piece> piecesOf(const std::vector<Block> &blocks, const std::vector<std::vector<size_t>> &rows) {
  std::vector<Piece> pieces;
  std::vector<const std::vector<size_t> *> rowOf(blocks.size(), nullptr);
  for (const std::vector<size_t> &row : rows)
    for (size_t b : row)
      rowOf[b] = &row;
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (rowOf[b] && rowOf[b]->front() != b)
      continue;
    Piece &piece = pieces.emplace_back();
    piece.blocks = rowOf[b] ? *rowOf[b] : std::vector<size_t>{b};
    int64_t first = blocks[b].first, last = blocks[b].last;
    for (size_t part : piece.blocks) {
      const Block &block = blocks[part];
      piece.starts.push_back(aligned(piece.bytes));
      piece.bytes = piece.starts.back() + block.bytes;
      piece.area += double(block.bytes) * double(block.last - block.first + 1);
      first = std::min(first, block.first);
      last = std::max(last, block.last);
    }
    piece.length = last - first + 1;
  }
  return pieces;
}

class Placing {
public:
  explicit Placing(const std::vector<Block> &blocks) : blocks_(blocks) { layout_.offsets.resize(blocks.size()); }

  void place(const Piece &piece) {
    const uint64_t start = piece.blocks.size() == 1 ? gapFor(blocks_[piece.blocks.front()]) : roomFor(piece);
    for (size_t p = 0; p < piece.blocks.size(); ++p) {
      const size_t b = piece.blocks[p];
      const uint64_t offset = layout_.offsets[b] = start + piece.starts[p];
      layout_.bytes = std::max(layout_.bytes, offset + blocks_[b].bytes);
      placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), offset,
                                      [&](uint64_t o, size_t other) { return o < layout_.offsets[other]; }),
                     b);
    }
  }

  ArenaLayout take() { return std::move(layout_); }

private:
  bool apart(const Block &a, const Block &b) const { return a.last < b.first || b.last < a.first; }

  /// The smallest gap that is large enough, or else the end.
  uint64_t gapFor(const Block &block) const {
    uint64_t end = 0, best = 0, bestGap = ~uint64_t(0);
    bool found = false;
    for (size_t other : placed_) {
      if (apart(blocks_[other], block))
        continue;
      uint64_t offset = layout_.offsets[other];
      if (offset > end && offset - end >= block.bytes && offset - end < bestGap) {
        bestGap = offset - end;
        best = end;
        found = true;
      }
      end = std::max(end, aligned(offset + blocks_[other].bytes));
    }
    return found ? best : end;
  }

  /// The lowest place where every block of the row is free of what lives with it.
  uint64_t roomFor(const Piece &row) const {
    std::vector<std::pair<int64_t, int64_t>> taken; // the row starts nowhere between the two, both excluded
    for (size_t p = 0; p < row.blocks.size(); ++p) {
      const Block &block = blocks_[row.blocks[p]];
      for (size_t other : placed_)
        if (!apart(blocks_[other], block) && block.bytes > 0 && blocks_[other].bytes > 0)
          taken.push_back({int64_t(layout_.offsets[other]) - int64_t(row.starts[p] + aligned(block.bytes)),
                           int64_t(aligned(layout_.offsets[other] + blocks_[other].bytes)) - int64_t(row.starts[p])});
    }
    std::sort(taken.begin(), taken.end());
    int64_t start = 0;
    for (auto [after, before] : taken)
      if (after < start && start < before)
        start = before;
    return uint64_t(start);
  }

  const std::vector<Block> &blocks_;
  ArenaLayout layout_;
  std::vector<size_t> placed_; // by offset
};

} // namespace

ArenaLayout layOut(const std::vector<Block> &blocks, const std::vector<std::vector<size_t>> &rows) {
  const std::vector<Piece> pieces = piecesOf(blocks, rows);
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t(0));
  ArenaLayout best;
  bool first = true;
  auto attempt = [&](auto before) {
    std::vector<size_t> sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return before(pieces[a], pieces[b]); });
    Placing placing(blocks);
    for (size_t p : sorted)
      placing.place(pieces[p]);
    ArenaLayout layout = placing.take();
    if (first || layout.bytes < best.bytes)
      best = std::move(layout);
    first = false;
  };
  attempt([](const Piece &a, const Piece &b) { return a.bytes > b.bytes; });
  attempt([](const Piece &a, const Piece &b) { return a.area > b.area; });
  attempt([](const Piece &a, const Piece &b) { return std::pair(a.length, a.bytes) > std::pair(b.length, b.bytes); });
  return best;
}

std::vector<Block> keepLonger(const std::vector<Block> &blocks, const std::vector<int64_t> &wanted, uint64_t more) {
  int64_t end = 0;
  for (size_t b = 0; b < blocks.size(); ++b)
    end = std::max({end, blocks[b].last, wanted[b]});
  std::vector<uint64_t> load(size_t(end) + 1, 0); // by time
  for (const Block &block : blocks)
    for (int64_t t = block.first; t <= block.last; ++t)
      load[size_t(t)] += aligned(block.bytes);
  const uint64_t peak = *std::max_element(load.begin(), load.end()) + more;
  std::vector<Block> longer = blocks;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const auto from = load.begin() + std::ptrdiff_t(blocks[b].last + 1),
               to = load.begin() + std::ptrdiff_t(std::max(blocks[b].last, wanted[b]) + 1);
    const uint64_t bytes = aligned(blocks[b].bytes);
    if (std::any_of(from, to, [&](uint64_t there) { return there + bytes > peak; }))
      continue;
    std::for_each(from, to, [&](uint64_t &there) { there += bytes; });
    longer[b].last = std::max(blocks[b].last, wanted[b]);
  }
  return longer;
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
