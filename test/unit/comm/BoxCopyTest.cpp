#include "runtime/comm/BoxCopy.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>

using namespace tessera::rt;
using Catch::Contains;

namespace {

/// Element offsets in row-major order, the slow way.
std::vector<int64_t> offsets(const Box &box) {
  std::vector<int64_t> list = {box.offset};
  for (size_t d = 0; d < box.count.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : list)
      for (int64_t i = 0; i < box.count[d]; ++i)
        next.push_back(base + i * box.stride[d]);
    list = std::move(next);
  }
  return list;
}

template <typename T> void checkCopy(const Box &from, const Box &to) {
  const std::vector<int64_t> a = offsets(from), b = offsets(to);
  REQUIRE(a.size() == b.size());
  std::vector<T> src(1000), dst(1000, T(200)), expected(1000, T(200));
  std::iota(src.begin(), src.end(), T(1));
  for (size_t i = 0; i < a.size(); ++i)
    expected[b[i]] = src[a[i]];
  copyBox(src.data(), from, dst.data(), to, sizeof(T));
  INFO(describeBox(from) << " to " << describeBox(to));
  CHECK((dst == expected));
}

void checkSizes(const Box &from, const Box &to) {
  checkCopy<uint8_t>(from, to);
  checkCopy<uint16_t>(from, to);
  checkCopy<uint32_t>(from, to);
  checkCopy<uint64_t>(from, to);
}

} // namespace

TEST_CASE("boxes are copied in row-major order", "[comm]") {
  const std::vector<Box> twentyFour = {
      {0, {24}, {1}},
      {7, {24}, {3}},
      {10, {4, 6}, {6, 1}},
      {10, {4, 6}, {10, 1}},
      {0, {4, 6}, {1, 4}},          // transposed
      {5, {2, 3, 4}, {100, 20, 4}}, // strided everywhere
      {1, {6, 4}, {40, 2}},         // cut elsewhere than [4, 6]
      {1, {3, 8}, {30, 1}},
      {3, {8, 3}, {20, 5}},
      {0, {1, 24, 1}, {0, 2, 0}},
      {0, {2, 2, 2, 3}, {1, 2, 4, 8}},
      {2, {3, 2, 2, 2}, {16, 8, 4, 2}},
      {9, {2, 12}, {12, 1}}, // runs on: one copy
  };
  for (const Box &from : twentyFour)
    for (const Box &to : twentyFour)
      checkSizes(from, to);
  checkSizes({5, {}, {}}, {9, {1}, {0}});         // one element
  checkSizes({5, {0, 4}, {1, 1}}, {9, {0}, {1}}); // none
  checkSizes({5, {6}, {0}}, {9, {2, 3}, {3, 1}}); // one element six times
}

TEST_CASE("random boxes of regrouped dimensions", "[comm]") {
  std::mt19937 random(7);
  auto regrouped = [&](int64_t offset) {
    // The factors of 72 in some grouping. The inner dimensions are dense, and the outer ones have gaps.
    std::vector<int64_t> factors = {2, 2, 2, 3, 3};
    std::shuffle(factors.begin(), factors.end(), random);
    Box box;
    box.offset = offset;
    for (int64_t f : factors)
      if (!box.count.empty() && random() % 2)
        box.count.back() *= f;
      else
        box.count.push_back(f);
    box.stride.resize(box.count.size());
    int64_t stride = 1 + random() % 2;
    for (size_t d = box.count.size(); d-- > 0;) {
      box.stride[d] = stride;
      stride *= box.count[d];
      stride += random() % 4;
    }
    return box;
  };
  for (int i = 0; i < 500; ++i) {
    const Box from = regrouped(random() % 50), to = regrouped(random() % 50);
    if (offsets(from).back() < 1000 && offsets(to).back() < 1000)
      checkSizes(from, to);
  }
}

TEST_CASE("malformed boxes are named", "[comm]") {
  CHECK(checkBox({0, {}, {}}).ok());
  CHECK(checkBox({3, {2, 0}, {5, 1}}).ok());
  CHECK_THAT(checkBox({3, {2, 4}, {5}}).message(), Contains("offset 3") && Contains("[2, 4]") && Contains("[5]"));
  CHECK_FALSE(checkBox({-1, {}, {}}).ok());
  CHECK_FALSE(checkBox({0, {-1}, {1}}).ok());
  CHECK_FALSE(checkBox({0, {2}, {-1}}).ok());
  CHECK_FALSE(checkBox({0, {INT64_MAX, INT64_MAX}, {0, 0}}).ok());
  CHECK_FALSE(checkBox({INT64_MAX, {2}, {1}}).ok());
  CHECK_FALSE(checkBox({0, {INT64_MAX / 2}, {8}}).ok());
}
