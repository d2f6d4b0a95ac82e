// Rows that few, many or nearly all indices add to are added up alike: in the order of the indices, and without the
// error of sums in F32.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

struct Case {
  int64_t outer, indices, rows, inner;
  int64_t favourite = 6; // the row that seven of eight indices name, unless it is -1
  int64_t limit = -1;    // rows that count; -1: all
  plan::DType type = plan::F32, index = plan::I64;
};

constexpr int64_t kStart = 5;

/// Numbers whose sum is exact in F64, and depends on the order in F32.
void check(const Case &c) {
  INFO(c.outer << " x " << c.indices << " indices of " << c.rows << " rows of " << c.inner);
  std::mt19937 random(7);
  PlanBuilder p;
  const uint32_t at = p.buffer(c.index, {c.indices}), updates = p.buffer(c.type, {c.outer, c.indices, c.inner}),
                 y = p.buffer(c.type, {c.outer, c.rows, c.inner});
  p.kernel("scatter_add", {at, updates}, {y},
           {{"axis", int64_t(1)}, {"size", c.rows}, {"start", kStart}, {"limit", c.limit}});
  Values rows, numbers;
  for (int64_t i = 0; i < c.indices; ++i) { // some are below the first row or behind the last one
    const bool usual = c.favourite >= 0 && random() % 8 != 0;
    rows.push_back(double(usual ? c.favourite + kStart : int64_t(random() % (uint64_t(c.rows) + 9))));
  }
  const bool whole = c.type == plan::I64;
  for (int64_t i = c.outer * c.indices * c.inner; i > 0; --i)
    numbers.push_back(whole ? double(random() % 1000) : double(random() % (1U << 24)) / double(1U << random() % 10));
  Values expected(size_t(c.outer * c.rows * c.inner), 0.0);
  for (int64_t b = 0; b < c.outer; ++b)
    for (int64_t i = 0; i < c.indices; ++i)
      for (int64_t k = 0; k < c.inner; ++k)
        if (const int64_t row = int64_t(rows[size_t(i)]) - kStart; row >= 0 && row < (c.limit < 0 ? c.rows : c.limit))
          expected[size_t((b * c.rows + row) * c.inner + k)] += numbers[size_t((b * c.indices + i) * c.inner + k)];
  if (c.type == plan::F32)
    for (double &e : expected)
      e = double(float(e));
  for (int run = 0; run < 2; ++run)
    CHECK(p.run("cuda", {{at, rows}, {updates, numbers}}, {y})[0] == expected);
}

} // namespace

TEST_CASE("the updates of a row are added up in order, however many indices name it") {
  check({2, 300, 37, 3});
  check({1, 31, 37, 3});
  check({1, 1, 7, 1});
  check({1, 2049, 2, 8, 1});        // two rows have all, in columns that are four at once
  check({3, 700, 300, 4, -1});      // more rows than one pass tells apart
  check({1, 900, 70000, 1, 66000}); // and than two do
  check({1, 70000, 37, 2});         // tiles of several blocks' threads
  check({1, 300, 37, 2100, 6});     // more columns than a block has threads
  check({2, 300, 37, 3, 6, 20});    // rows behind the limit get nothing
  check({2, 300, 37, 6, 6, -1, plan::F64, plan::I32});
  check({2, 300, 37, 3, 6, -1, plan::I64});
}

TEST_CASE("an index behind the limit picks no row") {
  PlanBuilder p;
  const uint32_t table = p.buffer(plan::F32, {4, 2}), at = p.buffer(plan::I64, {5}), y = p.buffer(plan::F32, {5, 2});
  p.kernel("gather", {table, at}, {y}, {{"axis", int64_t(0)}, {"start", kStart}, {"limit", int64_t(3)}});
  CHECK(p.run("cuda", {{table, {1, 2, 3, 4, 5, 6, 7, 8}}, {at, {4, 5, 7, 8, 9}}}, {y})[0] ==
        Values{0, 0, 1, 2, 5, 6, 0, 0, 0, 0});
}
