#include "runtime/data/Random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace tessera::rt;

TEST_CASE("a permutation hits every number once", "[data]") {
  for (int64_t n : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 50000}) {
    for (uint64_t key : {0u, 1u, 99u}) {
      const Permutation order(n, key);
      std::vector<bool> seen(n, false);
      bool once = true;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = order(i);
        REQUIRE(at >= 0);
        REQUIRE(at < n);
        once &= !seen[at];
        seen[at] = true;
      }
      CHECK(once);
    }
  }
}

TEST_CASE("permutations mix their numbers and differ by key", "[data]") {
  const int64_t n = 10000;
  const Permutation a(n, 1), b(n, 2);
  int64_t same = 0, fixed = 0;
  double correlation = 0;
  for (int64_t i = 0; i < n; ++i) {
    same += a(i) == b(i);
    fixed += a(i) == i;
    correlation += (i / double(n) - 0.5) * (a(i) / double(n) - 0.5) * 12 / n;
  }
  CHECK(same < 20);
  CHECK(fixed < 20);
  CHECK(std::fabs(correlation) < 0.05);
}

TEST_CASE("random numbers have the moments that they claim", "[data]") {
  double mean = 0, square = 0, unit = 0;
  std::vector<int> histogram(7, 0);
  const int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double x = nearlyNormal(hash(5, i));
    mean += x / n;
    square += x * x / n;
    unit += unitInterval(hash(6, i)) / n;
    ++histogram[below(hash(7, i), 7)];
  }
  CHECK(std::fabs(mean) < 0.01);
  CHECK(std::fabs(square - 1) < 0.02);
  CHECK(std::fabs(unit - 0.5) < 0.005);
  for (int count : histogram)
    CHECK(std::abs(count - n / 7) < n / 100);
}
