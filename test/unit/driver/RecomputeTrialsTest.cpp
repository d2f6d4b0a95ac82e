// The trials of --recompute auto, on segments whose sizes are known.
#include "compiler/driver/fit/RecomputeTrials.h"

#include "catch2/catch.hpp"

#include <algorithm>
#include <random>

using namespace tessera;
using Catch::Contains;

namespace {

struct Network {
  std::vector<int64_t> bytes, cost; // by segment
  std::vector<int64_t> order;       // those first that free most for their cost
  int64_t limit = 0;                // of what is kept
  int64_t best = -1;                // the least cost of what was tried and fits
  int tries = 0;

  explicit Network(std::vector<int64_t> b, std::vector<int64_t> c) : bytes(std::move(b)), cost(std::move(c)) {
    for (size_t s = 0; s < bytes.size(); ++s)
      order.push_back(int64_t(s));
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return bytes[i] * cost[j] > bytes[j] * cost[i]; });
  }
  int64_t kept(const Recomputed &again) const {
    int64_t sum = 0;
    for (size_t s = 0; s < bytes.size(); ++s)
      if (!makes(again, s))
        sum += bytes[s];
    return sum;
  }
  int64_t price(const Recomputed &again) const {
    int64_t sum = 0;
    for (size_t s = 0; s < bytes.size(); ++s)
      sum += makes(again, s) ? cost[s] : 0;
    return sum;
  }
  static bool makes(const Recomputed &again, size_t s) {
    return again.level == "full" && (again.segments.empty() || std::find(again.segments.begin(), again.segments.end(),
                                                                         int64_t(s)) != again.segments.end());
  }
  void run() {
    best = -1;
    tries = 0;
    llvm::Error e = tryRecomputation({.run = [&](const Recomputed &again) -> llvm::Expected<bool> {
                                        ++tries;
                                        if (kept(again) > limit)
                                          return false;
                                        best = best < 0 ? price(again) : std::min(best, price(again));
                                        return true;
                                      },
                                      .enough = [&]() -> llvm::Expected<bool> { return true; },
                                      .segments =
                                          [&] {
                                            std::vector<std::pair<int64_t, double>> list;
                                            for (int64_t s : order)
                                              list.push_back({s, double(cost[s])});
                                            return list;
                                          }});
    REQUIRE(!e);
  }
  int64_t exact() const {
    int64_t least = -1;
    for (unsigned bits = 0; bits < 1u << bytes.size(); ++bits) {
      int64_t sum = 0, price = 0;
      for (size_t s = 0; s < bytes.size(); ++s)
        (bits >> s & 1 ? price : sum) += bits >> s & 1 ? cost[s] : bytes[s];
      if (sum <= limit && (least < 0 || price < least))
        least = price;
    }
    return least;
  }
};

} // namespace

TEST_CASE("of equal segments the fewest that fit run again") {
  Network net(std::vector<int64_t>(16, 10), std::vector<int64_t>(16, 3));
  for (net.limit = 0; net.limit <= 160; net.limit += 5) {
    net.run();
    CHECK(net.best == net.exact());
    CHECK(net.tries <= 2 + 1 + 4 + 5 + 5);
  }
  net.limit = -1;
  net.run();
  CHECK(net.best == -1);
  CHECK(net.tries == 3); // none, cheap, full
}

TEST_CASE("of unequal segments the choice is near the best") {
  std::mt19937 random(1);
  auto draw = [&](int most) { return 1 + int64_t(random() % unsigned(most)); };
  int64_t found = 0, least = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> bytes, cost;
    for (int s = 0; s < 10; ++s) {
      bytes.push_back(draw(50));
      cost.push_back(draw(20));
    }
    Network net(bytes, cost);
    net.limit = int64_t(random() % 250);
    net.run();
    REQUIRE((net.best >= 0) == (net.exact() >= 0));
    CHECK(net.best >= net.exact());
    found += net.best;
    least += net.exact();
  }
  CHECK(double(found) <= 1.1 * double(least));
}

TEST_CASE("the trials end at a result that is good enough and at an error") {
  int tries = 0;
  RecomputeTrials trials{.run = [&](const Recomputed &again) -> llvm::Expected<bool> { return ++tries, true; },
                         .enough = [&]() -> llvm::Expected<bool> { return tries == 2; },
                         .segments =
                             [] {
                               return std::vector<std::pair<int64_t, double>>{{2, 1}, {0, 1}, {1, 1}};
                             }};
  REQUIRE(!tryRecomputation(trials));
  CHECK(tries == 2);
  trials.enough = []() -> llvm::Expected<bool> { return false; };
  tries = 0;
  REQUIRE(!tryRecomputation(trials)); // none, cheap, full, full:2
  CHECK(tries == 4);
  trials.run = [](const Recomputed &again) -> llvm::Expected<bool> {
    if (again.level == "full")
      return llvm::createStringError("broken");
    return false;
  };
  CHECK(llvm::toString(tryRecomputation(trials)) == "broken");
}

TEST_CASE("--recompute is read") {
  for (const char *text : {"none", "cheap", "full", "full:0", "full:1,3"}) {
    llvm::Expected<Recomputed> again = parseRecomputed(text);
    REQUIRE(bool(again));
    CHECK(str(*again) == text);
  }
  for (const char *text : {"", "most", "cheap:1", "full:", "full:-1", "full:1,", "full:a"})
    CHECK_THAT(llvm::toString(parseRecomputed(text).takeError()), Contains("expected auto, none"));
}
