//===- WideDualTest.cpp - the wide bound, what it starts from and what it keeps ----------------------===//
#include "RandomWide.h"

#include "strategies/search/wide/Reparametrized.h"
#include "strategies/search/wide/Undominated.h"
#include "strategies/search/wide/WideDual.h"
#include "strategies/space/StrategyGraphIO.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;

TEST_CASE("the wide bound and its reduced costs hold") {
  Draw draw{std::mt19937_64(12)};
  int tight = 0, checked = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.15 : 0, i % 2 ? 0.8 : 0);
    if (i % 5)
      addShares(draw, wide);
    double work = 0;
    Kept kept = undominated(wide, {}, work);
    if (empty(kept))
      continue;
    const Cost least = leastOf(wide, kept);
    if (least >= kForbidden)
      continue;
    WideDual dual(wide, kept);
    for (int pass = 0; pass < 30; ++pass) {
      REQUIRE(dual.pass() <= double(least) + 1e-3);
      dual.stepPrices(double(least));
    }
    dual.restoreBest();
    dual.pass();
    dual.pass();
    ++checked;
    tight += dual.best() > double(least) - 1e-3;
    const std::vector<double> reduced = dual.reducedCosts();
    for (size_t n = 0; n < kept.size(); ++n)
      for (size_t s = 0; s < kept[n].size(); ++s)
        if (Cost with = bestWith(wide, n, kept[n][s]); with < kForbidden)
          REQUIRE(dual.last() + reduced[dual.first(n) + s] <= double(with) + 1e-3);
  }
  CHECK(checked > 100);
  CHECK(tight > checked / 4); // it must be a bound worth having
}

TEST_CASE("a wide bound goes on from the prices of another one") {
  Draw draw{std::mt19937_64(18)};
  int priced = 0, higher = 0, near = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.15 : 0, 0.6);
    double work = 0;
    const Kept kept = undominated(wide, {}, work);
    const Cost least = empty(kept) ? kForbidden : leastOf(wide, kept);
    if (least >= kForbidden)
      continue;
    WideDual first(wide, kept);
    for (int pass = 0; pass < 60; ++pass) {
      first.pass();
      first.stepPrices(double(least));
    }
    auto afterTen = [&](const std::vector<double> &prices) {
      WideDual dual(wide, kept);
      dual.setPrices(prices);
      for (int pass = 0; pass < 10; ++pass)
        REQUIRE(dual.pass() <= double(least) + 1e-3);
      return dual.best();
    };
    const std::vector<double> &prices = first.bestPrices();
    const double unpriced = afterTen({}), given = afterTen(prices);
    std::vector<double> other(prices.size() + 1, 1);
    REQUIRE(afterTen(other) == unpriced);
    if (std::none_of(prices.begin(), prices.end(), [](double price) { return price > 0; }))
      continue;
    ++priced;
    higher += given > unpriced;
    near += given > first.best() - 0.1 * (first.best() - unpriced) - 1e-3;
  }
  CHECK(priced > 40);
  CHECK(higher > priced * 3 / 4);
  CHECK(near > priced * 3 / 4);
}

TEST_CASE("a wide bound goes on from the messages of one over more options") {
  Draw draw{std::mt19937_64(31)};
  int begun = 0, higher = 0, near = 0;
  for (int i = 0; i < 300; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.15 : 0, i % 2 ? 0.8 : 0);
    if (i % 5)
      addShares(draw, wide);
    double work = 0;
    const Kept all = undominated(wide, {}, work);
    Kept some = all;
    for (auto &options : some)
      std::erase_if(options, [&](int32_t) { return draw.chance(0.3); });
    some = undominatedAmong(wide, std::move(some), {}, work);
    if (empty(all) || empty(some))
      continue;
    const Cost least = leastOf(wide, some);
    if (least >= kForbidden)
      continue;
    WideDual before(wide, all);
    for (int pass = 0; pass < 30; ++pass)
      before.pass();
    const WideDual::Known known = before.known();
    auto bound = [&](bool begins, int passes) {
      WideDual dual(wide, some);
      if (begins)
        dual.begin(known);
      for (int pass = 0; pass < passes; ++pass)
        REQUIRE(dual.pass() <= double(least) + 1e-3);
      return dual.best();
    };
    const double alone = bound(false, 2), after = bound(true, 2), end = bound(false, 60);
    ++begun;
    higher += after > alone + 1e-3;
    near += after > end - 0.1 * (end - alone) - 1e-3;
    REQUIRE(bound(true, 60) <= double(least) + 1e-3);
  }
  CHECK(begun > 100);
  CHECK(higher > begun / 4); // many are found in two passes anyway
  CHECK(near > begun / 2);
}

TEST_CASE("every choice of a problem that begins at a wide bound costs what it did") {
  Draw draw{std::mt19937_64(34)};
  int made = 0, allowed = 0, moved = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.15 : 0, i % 2 ? 0.8 : 0);
    if (i % 5)
      addShares(draw, wide);
    double work = 0;
    const Kept kept = undominated(wide, {}, work);
    if (empty(kept))
      continue;
    WideDual dual(wide, kept);
    for (int pass = 0; pass < 10; ++pass)
      dual.pass();
    const DenseGraph dense = denseGraph(wide, kept, everyOffer(wide, kept));
    const StrategyGraph graph = reparametrized(wide, dense, dual.known());
    REQUIRE(checkStrategyGraph(graph) == "");
    ++made;
    for (int trial = 0; trial < 20; ++trial) {
      Choice choice;
      for (const StrategyNode &node : dense.graph.nodes)
        choice.push_back(draw(int(node.costs.size())));
      for (auto [node, other] : dense.graph.aliases)
        choice[size_t(other)] = choice[size_t(node)];
      const Evaluation before = evaluate(dense.graph, choice), after = evaluate(graph, choice);
      REQUIRE(after.feasible == before.feasible);
      if (!before.feasible)
        continue;
      REQUIRE(after.cost == before.cost);
      ++allowed;
    }
    for (size_t n = 0; n < kept.size(); ++n)
      moved += graph.nodes[n].costs != dense.graph.nodes[n].costs;
  }
  CHECK(made > 100);
  CHECK(allowed > 500);
  CHECK(moved > made);
}

TEST_CASE("offers within a smaller limit are those that the bound makes for it") {
  Draw draw{std::mt19937_64(32)};
  int fewer = 0;
  for (int i = 0; i < 100; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.15 : 0, 0);
    addShares(draw, wide);
    const size_t every = std::numeric_limits<size_t>::max();
    double work = 0;
    const Kept kept = undominated(wide, {}, work);
    if (empty(kept) || wide.shares.empty())
      continue;
    WideDual dual(wide, kept);
    for (int pass = 0; pass < 10; ++pass)
      dual.pass();
    const Offers all = dual.offers(100, every);
    for (double limit : {0.0, 5.0, 20.0, 100.0}) {
      const Offers some = all.within(limit), made = dual.offers(limit, every);
      REQUIRE(some.limit == limit);
      REQUIRE(some.option == made.option);
      REQUIRE(some.list.size() == made.list.size());
      for (size_t s = 0; s < made.list.size(); ++s) {
        REQUIRE(some.list[s].size() == made.list[s].size());
        fewer += made.list[s].size() < all.list[s].size();
        for (size_t o = 0; o < made.list[s].size(); ++o) {
          REQUIRE(some.list[s][o].state == made.list[s][o].state);
          REQUIRE(some.list[s][o].copy == made.list[s][o].copy);
          REQUIRE(some.list[s][o].beyond == made.list[s][o].beyond);
        }
      }
    }
  }
  CHECK(fewer > 50);
}
