// Blocks against sets of indices, by brute force.
#include "runtime/plan/Blocks.h"
#include "runtime/plan/PlanInfo.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>

using namespace tessera::rt;

namespace {

using Index = std::vector<int64_t>;

/// All indices of a block in row-major order.
std::vector<Index> indices(const Block &block) {
  std::vector<Index> all = {{}};
  for (size_t d = 0; d < block.shape.size(); ++d) {
    std::vector<Index> longer;
    for (const Index &index : all)
      for (int64_t i = 0; i < block.shape[d]; ++i) {
        longer.push_back(index);
        longer.back().push_back(block.offset[d] + i);
      }
    all = std::move(longer);
  }
  return all;
}

Block randomBlock(const Index &shape, std::mt19937 &random) {
  Block block;
  for (int64_t size : shape) {
    int64_t a = random() % size, b = random() % size;
    block.offset.push_back(std::min(a, b));
    block.shape.push_back(std::max(a, b) - std::min(a, b) + 1);
  }
  return block;
}

} // namespace

TEST_CASE("intersections and copies are those of the indices") {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    Index shape;
    for (int d = int(random() % 5); d > 0; --d)
      shape.push_back(1 + random() % 5);
    Block a = randomBlock(shape, random), b = randomBlock(shape, random);
    std::map<Index, int32_t> values;
    std::vector<int32_t> from, to, expected;
    for (const Index &i : indices(a))
      from.push_back(values[i] = int32_t(random() % 1000));
    size_t common = 0;
    for (const Index &i : indices(b)) {
      expected.push_back(values.count(i) ? values[i] : -1);
      common += values.count(i);
    }
    to.assign(expected.size(), -1);
    copyBlock(from.data(), a, to.data(), b, 4);
    CHECK(to == expected);
    std::optional<Block> meet = intersect(a, b);
    CHECK((meet ? indices(*meet).size() : 0) == common);
    if (meet) {
      CHECK(isInside(*meet, shape));
      for (const Index &i : indices(*meet))
        CHECK(values.count(i) == 1);
    }
  }
}

TEST_CASE("slabs make up the block in order, and none is too large") {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    Index shape;
    for (int d = int(random() % 5); d > 0; --d)
      shape.push_back(1 + random() % 5);
    Block block = randomBlock(shape, random);
    int64_t most = 1 + random() % 30;
    std::vector<Index> seen;
    for (const Block &slab : slabsOf(block, most)) {
      CHECK(*elementsOf(slab.shape) <= most);
      for (const Index &i : indices(slab))
        seen.push_back(i);
    }
    CHECK(seen == indices(block));
  }
  CHECK(slabsOf({{0, 0}, {8, 1000}}, 2500).size() == 4);
}

TEST_CASE("a tiling has every element once") {
  CHECK(checkTiling({{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}}, {4, 3}).ok());
  CHECK(checkTiling({{{}, {}}}, {}).ok());
  // Padded halves of padded halves, which lie on no lattice: 0 1 | 2 | 3 4.
  CHECK(checkTiling({{{0}, {2}}, {{2}, {1}}, {{3}, {2}}}, {5}).ok());
  CHECK(checkTiling({{{0, 0}, {2, 3}}, {{1, 0}, {2, 3}}}, {3, 3}).message().find("overlap") != std::string::npos);
  CHECK_FALSE(checkTiling({{{0, 0}, {2, 3}}}, {4, 3}).ok());
  CHECK_FALSE(checkTiling({}, {4, 3}).ok());
  CHECK_FALSE(checkTiling({{{0}, {2}}, {{0}, {2}}, {{2}, {2}}}, {4}).ok()); // one twice
  CHECK(checkTiling({{{0, 0}, {1, 2}}, {{0, 2}, {1, 1}}, {{1, 0}, {2, 2}}, {{1, 2}, {2, 1}}}, {3, 3}).ok());
  // Every interval is there, but not every combination: a hole and an overlap of the same size.
  CHECK_FALSE(checkTiling({{{0, 0}, {1, 1}}, {{0, 1}, {1, 1}}, {{1, 0}, {1, 1}}, {{1, 0}, {1, 1}}}, {2, 2}).ok());
  // The number of elements is right, but one of them is there twice.
  CHECK_FALSE(checkTiling({{{0}, {3}}, {{2}, {1}}}, {4}).ok());
}

TEST_CASE("a hostile block does not lie inside a tensor") {
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const Block &block : std::vector<Block>{
           {{most}, {most}}, {{-1}, {1}}, {{0}, {0}}, {{0}, {-1}}, {{1}, {4}}, {{0, 0}, {1, 1}}, {{}, {}}})
    CHECK_FALSE(isInside(block, {4}));
  CHECK(isInside({{1}, {3}}, {4}));
}
