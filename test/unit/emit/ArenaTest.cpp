#include "compiler/emit/Arena.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using namespace tessera::compiler;

namespace {

std::vector<Block> randomBlocks(size_t number, std::mt19937 &random) {
  std::vector<Block> blocks(number);
  for (Block &b : blocks) {
    b.bytes = random() % 5 == 0 ? 64 * (random() % 8) : random() % 1000;
    b.first = int64_t(random() % 30);
    b.last = b.first + int64_t(random() % 10);
  }
  return blocks;
}

/// Blocks are aligned, those that live at once lie apart, and the layout ends with the last of them.
void requireLayout(const ArenaLayout &layout, const std::vector<Block> &blocks) {
  REQUIRE(layout.offsets.size() == blocks.size());
  uint64_t end = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    REQUIRE(layout.offsets[i] % kAlignment == 0);
    end = std::max(end, layout.offsets[i] + blocks[i].bytes);
    for (size_t j = 0; j < i; ++j) {
      bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      bool apart = layout.offsets[i] + blocks[i].bytes <= layout.offsets[j] ||
                   layout.offsets[j] + blocks[j].bytes <= layout.offsets[i];
      REQUIRE((!together || apart));
    }
  }
  REQUIRE(layout.bytes == end);
}

} // namespace

TEST_CASE("blocks that live at once never overlap and the bound holds") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Block> blocks = randomBlocks(random() % 40, random);
    ArenaLayout layout = layOut(blocks);
    requireLayout(layout, blocks);
    uint64_t rounded = (layout.bytes + kAlignment - 1) / kAlignment * kAlignment;
    REQUIRE(rounded >= peakLoad(blocks));
  }
}

TEST_CASE("a freed place in memory is used again") {
  ArenaLayout layout = layOut({{100, 0, 1}, {100, 2, 3}, {50, 0, 3}});
  CHECK(layout.offsets == std::vector<uint64_t>{64, 64, 0});
  CHECK(layout.bytes == 164);
  int64_t time = -1;
  CHECK(peakLoad({{100, 0, 1}, {200, 1, 2}, {64, 2, 3}}, &time) == 128 + 256);
  CHECK(time == 1);
}

TEST_CASE("a gap that fits is preferred to a larger one") {
  // 64 bytes fit between the first and the third block while the second lives elsewhere.
  ArenaLayout layout = layOut({{640, 0, 0}, {320, 0, 1}, {320, 1, 1}, {64, 1, 1}});
  CHECK(layout.bytes == 960);
}

TEST_CASE("rows lie side by side, and nothing that lives with a block of them lies in its place") {
  CHECK(layOut({{100, 0, 1}, {100, 2, 3}, {50, 0, 3}}, {{0, 2}}).offsets == std::vector<uint64_t>{0, 0, 128});
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks = randomBlocks(2 + random() % 40, random);
    std::vector<size_t> free(blocks.size());
    std::iota(free.begin(), free.end(), size_t(0));
    std::shuffle(free.begin(), free.end(), random);
    std::vector<std::vector<size_t>> rows;
    for (size_t size; (size = 2 + random() % 5) <= free.size();) {
      rows.emplace_back(free.end() - std::ptrdiff_t(size), free.end());
      free.resize(free.size() - size);
      // Blocks of a row live at one time.
      for (size_t b : rows.back()) {
        blocks[b].first = std::min<int64_t>(blocks[b].first, 15);
        blocks[b].last = std::max<int64_t>(blocks[b].last, 15);
      }
    }
    ArenaLayout layout = layOut(blocks, rows);
    requireLayout(layout, blocks);
    for (const std::vector<size_t> &row : rows)
      for (size_t i = 1; i < row.size(); ++i)
        REQUIRE(layout.offsets[row[i]] ==
                layout.offsets[row[i - 1]] + (blocks[row[i - 1]].bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
}

TEST_CASE("blocks live longer where the peak stays what it is") {
  const std::vector<Block> blocks = {{64, 0, 0}, {64, 1, 2}, {64, 2, 2}, {64, 3, 3}};
  const std::vector<Block> longer = keepLonger(blocks, {3, 3, 0, 0});
  CHECK(longer[0].last == 0);
  CHECK(longer[1].last == 3);
  CHECK(longer[2].last == 2);
  // A small one beside a large one, for a little more.
  CHECK(keepLonger({{64, 0, 0}, {6400, 1, 1}}, {1, 0})[0].last == 0);
  CHECK(keepLonger({{64, 0, 0}, {6400, 1, 1}}, {1, 0}, 63)[0].last == 0);
  CHECK(keepLonger({{64, 0, 0}, {6400, 1, 1}}, {1, 0}, 64)[0].last == 1);
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const std::vector<Block> some = randomBlocks(1 + random() % 40, random);
    std::vector<int64_t> wanted;
    for (const Block &b : some)
      wanted.push_back(random() % 2 ? 0 : b.last + int64_t(random() % 6));
    const std::vector<Block> kept = keepLonger(some, wanted);
    REQUIRE(peakLoad(kept) == peakLoad(some));
    for (size_t b = 0; b < some.size(); ++b)
      REQUIRE((kept[b].last == some[b].last || kept[b].last == wanted[b]));
  }
}
