#include "compiler/transform/SegmentCuts.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using tessera::compiler::cutEvenly;
using tessera::compiler::cutForFewestBytes;

namespace {

/// Layers of four operators: few bytes cross where a layer ends, and in its middle.
struct Layers {
  std::vector<double> work = {0};
  std::vector<int64_t> crossing = {0};

  void add(double operatorWork, int64_t bytes) {
    work.push_back(work.back() + operatorWork);
    crossing.push_back(bytes);
  }
  void addLayers(int count) {
    for (int i = 0; i < count; ++i)
      for (int64_t bytes : {8, 2, 8, 2})
        add(1, bytes);
  }
};

double longestOf(const std::vector<double> &work, std::vector<int> cuts) {
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(int(work.size()) - 1);
  double longest = 0;
  for (size_t i = 1; i < cuts.size(); ++i)
    longest = std::max(longest, work[size_t(cuts[i])] - work[size_t(cuts[i - 1])]);
  return longest;
}

/// The bytes in memory when the last part runs, and the most when one of the others runs again.
struct Need {
  int64_t last = 0, others = 0;
};
Need needOf(const std::vector<int64_t> &kept, const std::vector<int64_t> &crossing, const std::vector<int> &cuts) {
  Need need;
  int64_t before = 0;
  size_t begin = 0;
  for (int cut : cuts) {
    need.others = std::max(need.others, before + kept[size_t(cut)] - kept[begin] + crossing[size_t(cut)]);
    before += crossing[size_t(cut)];
    begin = size_t(cut);
  }
  need.last = before + kept.back() - kept[begin];
  return need;
}

} // namespace

TEST_CASE("the example of the header") { CHECK(cutEvenly({0, 2, 3, 4, 6}, {0, 8, 8, 1, 0}, 2) == std::vector<int>{3}); }

TEST_CASE("parts of equal layers are equal, whatever stands before and behind them") {
  for (int layers : {2, 3, 6})
    for (double before : {0.0, 0.7})
      for (double behind : {0.0, 0.9, 1.9}) {
        constexpr int kParts = 64;
        Layers net;
        net.add(before, 2);
        net.addLayers(kParts * layers);
        net.add(behind, 8);
        const std::vector<int> cuts = cutEvenly(net.work, net.crossing, kParts);
        REQUIRE(cuts.size() == kParts - 1);
        INFO(layers << " layers in a part, " << before << " before them, " << behind << " behind");
        CHECK(longestOf(net.work, cuts) <= 4 * layers + std::max(before, behind) + 1e-9);
        CHECK(std::all_of(cuts.begin(), cuts.end(), [&](int cut) { return net.crossing[size_t(cut)] == 2; }));
      }
}

TEST_CASE("no cuts at places near the borders have a shorter longest part") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    Layers net;
    const int operators = 4 + int(random() % 9), parts = 2 + int(random() % 3);
    for (int i = 0; i < operators; ++i)
      net.add(double(random() % 5), 2);
    const std::vector<int> cuts = cutEvenly(net.work, net.crossing, parts);
    CHECK(std::is_sorted(cuts.begin(), cuts.end()));
    CHECK(std::adjacent_find(cuts.begin(), cuts.end()) == cuts.end());
    // All choices of as many places between the first half share and the last.
    const double share = net.work.back() / parts;
    double best = net.work.back();
    for (unsigned choice = 0; choice < (1u << (operators - 1)); ++choice) {
      std::vector<int> other;
      for (int place = 1; place < operators; ++place)
        if (choice >> (place - 1) & 1 && net.work[size_t(place)] >= share / 2 &&
            net.work[size_t(place)] < (parts - 0.5) * share)
          other.push_back(place);
      if (other.size() == cuts.size())
        best = std::min(best, longestOf(net.work, other));
    }
    CHECK(longestOf(net.work, cuts) <= best * 1.000001);
  }
}

TEST_CASE("too few places give fewer parts") {
  CHECK(cutEvenly({0, 1, 2}, {0, 4, 0}, 4) == std::vector<int>{1});
  CHECK(cutEvenly({0, 1}, {0, 0}, 3).empty());
  CHECK(cutEvenly({0, 0, 0}, {0, 1, 0}, 1).empty());
}

TEST_CASE("cuts for the fewest bytes: the example of the header") {
  CHECK(cutForFewestBytes({0, 4, 8, 12, 62}, {0, 1, 1, 1, 0}) == std::vector<int>{1, 2, 3});
}

TEST_CASE("cuts that gain nothing are none") {
  CHECK(cutForFewestBytes({0, 4, 8}, {0, 9, 0}).empty());
  CHECK(cutForFewestBytes({0, 8}, {0, 0}).empty());
  CHECK(cutForFewestBytes({0, 0, 0}, {0, 0, 0}).empty());
}

TEST_CASE("no cuts have fewer bytes, where each place is as good as its neighbours") {
  std::mt19937 random(1);
  const auto below = [&](int n) { return int64_t(random() % unsigned(n)); };
  int cutOnes = 0;
  for (int run = 0; run < 300; ++run) {
    const int n = 3 + int(below(8));
    std::vector<int64_t> kept{0}, crossing(size_t(n) + 1, 1 + below(12));
    crossing.front() = crossing.back() = 0;
    for (int i = 0; i < n; ++i)
      kept.push_back(kept.back() + below(i + 1 == n ? 60 : 20));
    int64_t least = kept.back(), leastOthers = kept.back();
    std::vector<Need> all;
    for (unsigned set = 1; set < 1u << (n - 1); ++set) {
      std::vector<int> cuts;
      for (int i = 1; i < n; ++i)
        if (set >> (i - 1) & 1)
          cuts.push_back(i);
      all.push_back(needOf(kept, crossing, cuts));
      least = std::min(least, std::max(all.back().last, all.back().others));
    }
    for (const Need &need : all)
      if (need.last <= least + least / 20)
        leastOthers = std::min(leastOthers, need.others);
    const std::vector<int> cuts = cutForFewestBytes(kept, crossing);
    INFO("run " << run);
    REQUIRE(cuts.empty() == (least >= kept.back()));
    if (cuts.empty())
      continue;
    ++cutOnes;
    const Need need = needOf(kept, crossing, cuts);
    CHECK(need.last <= least + least / 20);
    CHECK(need.others == leastOthers);
  }
  CHECK(cutOnes > 100);
}
