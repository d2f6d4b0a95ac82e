//===- WideSearchTest.cpp - searches over every option agree with enumeration ------------------------===//
#include "RandomWide.h"

#include "strategies/search/wide/SearchWide.h"
#include "strategies/search/wide/Undominated.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;

TEST_CASE("a search for the bound alone proves as much with no more work") {
  Draw draw{std::mt19937_64(33)};
  int searched = 0, less = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, 0);
    if (i % 5)
      addShares(draw, wide);
    const Cost least = leastOf(wide, everyOption(wide));
    if (least >= kForbidden)
      continue;
    Choice start;
    for (const WideNode &node : wide.nodes)
      start.push_back(draw(int(node.costs->size())));
    SearchOptions options;
    options.seconds = 600;
    options.work = i % 2 ? 1e-9 : 1; // it is over at once, or as good as never
    options.start = &start;
    const WideSolution whole = searchWide(wide, options, {0, 1e9, 2});
    options.boundAlone = true;
    const WideSolution alone = searchWide(wide, options, {0, 1e9, 2});
    REQUIRE(alone.solution.lowerBound == whole.solution.lowerBound);
    REQUIRE(alone.solution.lowerBound <= least);
    REQUIRE(alone.solution.work <= whole.solution.work);
    ++searched;
    less += alone.solution.work < whole.solution.work;
  }
  CHECK(searched > 100);
  CHECK(less > 20);
}

TEST_CASE("the wide search equals enumeration under every limit of entries") {
  Draw draw{std::mt19937_64(13)};
  int proven = 0, infeasible = 0;
  for (int i = 0; i < 800; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, i % 2 ? 0.7 : 0);
    if (i % 5)
      addShares(draw, wide);
    const Cost least = leastOf(wide, everyOption(wide));
    SearchOptions options;
    options.seconds = 600;
    options.work = 1;
    const bool cut = i % 4 == 0;
    WideSolution found = searchWide(wide, options, {0, cut ? 6.0 : 1e9, size_t(1 + i % 3)});
    const Solution &s = found.solution;
    if (s.choice.empty()) {
      if (s.infeasible)
        REQUIRE(least >= kForbidden);
      infeasible += s.infeasible;
      REQUIRE((cut || least >= kForbidden));
      continue;
    }
    Evaluation judged = evaluate(found.dense.graph, s.choice);
    REQUIRE(judged.feasible);
    REQUIRE(judged.cost == s.cost);
    REQUIRE(s.cost >= least);
    REQUIRE(s.lowerBound <= least);
    std::vector<int32_t> chosen;
    for (size_t n = 0; n < wide.nodes.size(); ++n)
      chosen.push_back(found.dense.option[n][size_t(s.choice[n])]);
    REQUIRE(summedCost(wide, chosen) == costOf(wide, chosen));
    if (!cut)
      REQUIRE(s.cost == least);
    proven += s.optimal;
  }
  CHECK(proven > 500);
  CHECK(infeasible > 10);
}

TEST_CASE("a wide search that begins at some answer finds the best one") {
  Draw draw{std::mt19937_64(23)};
  int fits = 0, better = 0;
  for (int i = 0; i < 600; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, i % 2 ? 0.7 : 0);
    if (i % 5)
      addShares(draw, wide);
    const Kept every = everyOption(wide);
    const Cost least = leastOf(wide, every);
    Choice start;
    for (const auto &options : every)
      start.push_back(draw(int(options.size())));
    Kept only;
    for (int32_t option : start)
      only.push_back({option});
    const Cost known = leastOf(wide, only);
    SearchOptions options;
    options.seconds = 600;
    options.work = 1;
    options.start = &start;
    const WideSolution found = searchWide(wide, options, {0, 1e9, size_t(1 + i % 3)});
    if (least >= kForbidden) {
      REQUIRE(found.solution.choice.empty());
      continue;
    }
    REQUIRE(found.solution.cost == least);
    REQUIRE(found.solution.lowerBound <= least);
    REQUIRE(evaluate(found.dense.graph, found.solution.choice).cost == least);
    fits += known < kForbidden;
    better += known < kForbidden && least < known;
  }
  CHECK(fits > 100);
  CHECK(better > 100);
}

TEST_CASE("nothing dominated is looked for where a search begins near the bound") {
  Draw draw{std::mt19937_64(18)};
  int ended = 0, went = 0;
  for (int i = 0; i < 300; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, i % 2 ? 0.7 : 0);
    if (i % 2)
      addShares(draw, wide);
    const Kept every = everyOption(wide);
    const Cost least = leastOf(wide, every);
    if (least >= kForbidden)
      continue;
    SearchOptions options;
    options.seconds = 600;
    options.work = 1;
    Choice start;
    for (const auto &list : every)
      start.push_back(draw(int(list.size())));
    Kept only;
    for (int32_t option : start)
      only.push_back({option});
    const Cost known = leastOf(wide, only);
    options.start = &start;
    options.gap = 1; // an answer of twice the bound will do
    const WideSolution found = searchWide(wide, options, {0, 1e9, 4});
    REQUIRE(found.solution.lowerBound <= least);
    REQUIRE(double(found.solution.cost) <= 2 * double(found.solution.lowerBound));
    if (found.undominated == 0) { // it ended at the answer that was known
      REQUIRE(found.solution.cost == known);
      REQUIRE(evaluate(found.dense.graph, found.solution.choice).cost == known);
    }
    (found.undominated ? went : ended) += known < kForbidden;
  }
  CHECK(ended > 30);
  CHECK(went > 30);
}

TEST_CASE("an answer that is too dear is not looked for") {
  Draw draw{std::mt19937_64(17)};
  int ended = 0, found = 0;
  for (int i = 0; i < 300; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, 0);
    if (i % 2)
      addShares(draw, wide);
    const Cost least = leastOf(wide, everyOption(wide));
    if (least >= kForbidden)
      continue;
    SearchOptions options;
    options.seconds = 600;
    options.work = 1;
    options.tooDear = least + 1; // the best answer is cheap enough
    const WideSolution some = searchWide(wide, options, {0, 1e9, 2});
    REQUIRE(some.solution.cost == least);
    ++found;
    options.tooDear = least / 2;
    const WideSolution none = searchWide(wide, options, {0, 1e9, 2});
    if (none.solution.choice.empty()) {
      REQUIRE(none.solution.infeasible);
      REQUIRE_FALSE(none.dense.graph.nodes.empty());
      ++ended;
    }
  }
  CHECK(found > 100);
  CHECK(ended > found / 2);
}
