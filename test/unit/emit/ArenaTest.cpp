#include "compiler/emit/Arena.h"

#include <catch2/catch.hpp>

#include <random>

using namespace tessera::compiler;

TEST_CASE("blocks that live at once never overlap and the bound holds") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks(random() % 40);
    for (Block &b : blocks) {
      b.bytes = random() % 5 == 0 ? 64 * (random() % 8) : random() % 1000;
      b.first = int64_t(random() % 30);
      b.last = b.first + int64_t(random() % 10);
    }
    ArenaLayout layout = layOut(blocks);
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
    uint64_t rounded = (end + kAlignment - 1) / kAlignment * kAlignment;
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
