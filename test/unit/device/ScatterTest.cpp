// Rows that many indices add to are added up in the order of the indices, by whatever kernels.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

constexpr int64_t kStart = 5, kRows = 37, kInner = 3;

/// Numbers whose sum depends on the order, added to rows of which some get many, some one and some none.
void check(int64_t batches, int64_t indices, const char *how) {
  std::mt19937 random(7);
  PlanBuilder p;
  const uint32_t at = p.buffer(plan::I64, {indices}), updates = p.buffer(plan::F32, {batches, indices, kInner}),
                 y = p.buffer(plan::F32, {batches, kRows, kInner});
  p.kernel("scatter_add", {at, updates}, {y}, {{"axis", int64_t(1)}, {"size", kRows}, {"start", kStart}});
  Values rows, numbers;
  for (int64_t i = 0; i < indices; ++i) {
    const int64_t row = random() % 8 == 0 ? 6 : int64_t(random() % 41);
    rows.push_back(double(row == 20 ? 19 : row)); // below the first row, behind the last one, and row 20 never
  }
  for (int64_t i = batches * indices * kInner; i > 0; --i)
    numbers.push_back(double(float(random()) / float(1 + random() % 65536)));
  std::vector<float> expected(size_t(batches * kRows * kInner), 0.0F);
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < indices; ++i)
      for (int64_t k = 0; k < kInner; ++k)
        if (const int64_t row = int64_t(rows[size_t(i)]) - kStart; row >= 0 && row < kRows)
          expected[size_t((b * kRows + row) * kInner + k)] += float(numbers[size_t((b * indices + i) * kInner + k)]);
  std::vector<std::string> steps;
  for (int run = 0; run < 2; ++run) {
    const Values found = p.run("cuda", {{at, rows}, {updates, numbers}}, {y}, {}, &steps)[0];
    CHECK(found == Values(expected.begin(), expected.end()));
  }
  CHECK_THAT(steps[0], Contains(how));
}

} // namespace

TEST_CASE("few indices are looked at for each row, and many are put in lists") {
  check(2, 300, "generated");
  check(1, 16385, "by lists");
  check(2, 17000, "by lists");
}
