//===- WideTest.cpp - wide graphs, their dense form and their dominated options ----------------------===//
#include "RandomWide.h"

#include "strategies/search/wide/SearchWide.h"
#include "strategies/search/wide/Undominated.h"
#include "strategies/space/StrategyGraphIO.h"
#include "strategies/space/Weighted.h"

#include <catch2/catch.hpp>

#include <map>

using namespace tessera::strategies;

TEST_CASE("the dense form of a wide graph has the sums of its edges") {
  WideGraph wide;
  auto costs = std::make_shared<const std::vector<Cost>>(std::vector<Cost>{1, 2, 3});
  wide.nodes = {{"a", costs}, {"b", costs}};
  auto states = std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{0, 1, 1});
  auto table = std::make_shared<const StateTable>(StateTable{2, 2, {0, 5, 7, kForbidden}});
  wide.edges = {{0, 1, states, states, table}, {1, 0, states, states, table}};
  StrategyGraph dense = denseGraph(wide, {{0, 2}, {1}});
  REQUIRE(dense.nodes.size() == 2);
  CHECK(dense.nodes[0].costs == std::vector<Cost>{1, 3});
  REQUIRE(dense.edges.size() == 1);
  CHECK(dense.edges[0].costs == std::vector<Cost>{12, kForbidden});
}

TEST_CASE("an option of the dense form offers what readers share, and is paid once") {
  WideGraph wide;
  auto costs = std::make_shared<const std::vector<Cost>>(std::vector<Cost>{0, 0});
  wide.nodes = {{"made", costs}, {"reader", costs}, {"other", costs}};
  auto states = std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{0, 1});
  auto copies = std::make_shared<SharedCopies>();
  copies->prices.rows = 2;
  copies->prices.columns = 1;
  copies->prices.costs = {5, 0};
  copies->wants = {{{}, {0}}, {{}, {0}}};
  auto table = std::make_shared<const StateTable>(StateTable{2, 2, {0, 5, 0, 0}});
  wide.edges = {{0, 1, states, states, table}, {0, 2, states, states, table}};
  wide.shares = {{{0, 1}, copies}};
  const DenseGraph dense = denseGraph(wide, everyOption(wide), everyOffer(wide, everyOption(wide)));
  CHECK(dense.whole);
  CHECK(dense.option[0] == std::vector<int32_t>{0, 0, 1}); // the second state has the copy already
  CHECK(evaluate(dense.graph, {0, 1, 1}).cost == 10);
  CHECK(evaluate(dense.graph, {1, 1, 1}).cost == 5);
  CHECK(dense.choiceOf(wide, {0, 1, 1}) == Choice{1, 1, 1});
  CHECK(dense.choiceOf(wide, {0, 1, 0}) == Choice{0, 1, 0});
}

TEST_CASE("the dense form has the price of every choice") {
  Draw draw{std::mt19937_64(14)};
  int cheaper = 0;
  for (int i = 0; i < 400; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, i % 2 ? 0.8 : 0);
    addShares(draw, wide);
    const Kept kept = everyOption(wide);
    const DenseGraph dense = denseGraph(wide, kept, everyOffer(wide, kept));
    REQUIRE(dense.whole);
    const DenseGraph without = denseGraph(wide, kept, {std::vector<std::vector<Offer>>(wide.shares.size())});
    const std::vector<double> sizes = denseSizes(wide, kept, everyOffer(wide, kept));
    for (size_t n = 0; n < sizes.size(); ++n)
      REQUIRE(sizes[n] == double(dense.option[n].size()));
    for (int k = 0; k < 20; ++k) {
      std::vector<int32_t> choice;
      for (const auto &list : kept)
        choice.push_back(list[size_t(draw(int(list.size())))]);
      const Cost cost = costOf(wide, choice);
      const Evaluation judged = evaluate(dense.graph, dense.choiceOf(wide, choice));
      REQUIRE((judged.feasible && judged.cost < kForbidden ? judged.cost : kForbidden) == cost);
      cheaper += cost < evaluate(without.graph, without.choiceOf(wide, choice)).cost;
    }
  }
  CHECK(cheaper > 500);
}

TEST_CASE("dominated options are in no better answer") {
  Draw draw{std::mt19937_64(11)};
  size_t dropped = 0, again = 0;
  for (int i = 0; i < 600; ++i) {
    INFO("graph " << i);
    WideGraph wide = randomWide(draw, i % 3 ? 0.2 : 0, i % 2 ? 0.8 : 0);
    if (i % 5)
      addShares(draw, wide);
    double work = 0;
    Kept kept = undominated(wide, {}, work);
    double workOfTwo = 0;
    REQUIRE(undominated(wide, {}, workOfTwo, 2) == kept);
    REQUIRE(workOfTwo == work);
    const Cost least = leastOf(wide, everyOption(wide));
    for (size_t n = 0; n < kept.size(); ++n)
      dropped += wide.nodes[n].costs->size() - kept[n].size();
    if (empty(kept)) {
      REQUIRE(least >= kForbidden);
      continue;
    }
    REQUIRE(leastOf(wide, kept) == least);
    const Kept fewer = undominatedAmong(wide, kept, {}, work);
    if (empty(fewer))
      REQUIRE(least >= kForbidden);
    else
      REQUIRE(leastOf(wide, fewer) == least);
    for (size_t n = 0; n < kept.size(); ++n)
      again += kept[n].size() - fewer[n].size();
  }
  CHECK(dropped > 500);
  CHECK(again > 20);
}

/// The options of a node without shares that `undominated` leaves, by its definition alone: in the order of their
/// costs, each is held against the first 150 that are left.
std::vector<int32_t> leftByDefinition(const WideGraph &wide, size_t n) {
  const WideNode &node = wide.nodes[n];
  auto cost = [&](int32_t k) { return (*node.costs)[size_t(k)]; };
  auto states = [&](int32_t k) {
    std::vector<int64_t> list;
    for (const WideEdge &edge : wide.edges)
      if (size_t(edge.from) == n || size_t(edge.to) == n)
        list.push_back((size_t(edge.from) == n ? *edge.fromState : *edge.toState)[size_t(k)]);
    for (const WideUse &use : node.uses)
      list.push_back((*use.bytes)[size_t(k)]);
    return list;
  };
  std::vector<int32_t> sorted, order;
  for (int32_t k = 0; k < int32_t(node.costs->size()); ++k)
    if (cost(k) < kForbidden)
      sorted.push_back(k);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) { return cost(a) < cost(b); });
  std::map<std::vector<int64_t>, int32_t> alike;
  for (int32_t k : sorted)
    if (alike.try_emplace(states(k), k).second)
      order.push_back(k);
  auto dominates = [&](int32_t a, int32_t b) {
    for (const WideUse &use : node.uses)
      if ((*use.bytes)[size_t(a)] > (*use.bytes)[size_t(b)])
        return false;
    Cost sum = cost(a) - cost(b);
    for (const WideEdge &edge : wide.edges) {
      if (size_t(edge.from) != n && size_t(edge.to) != n)
        continue;
      const bool from = size_t(edge.from) == n;
      const StateTable &table = *edge.table;
      const std::vector<int32_t> &mine = from ? *edge.fromState : *edge.toState;
      Cost most = std::numeric_limits<Cost>::min();
      for (size_t t = 0; t < (from ? table.columns : table.rows); ++t) {
        auto paid = [&](int32_t k) {
          return from ? table.costs[size_t(mine[size_t(k)]) * table.columns + t]
                      : table.costs[t * table.columns + size_t(mine[size_t(k)])];
        };
        if (paid(b) < kForbidden)
          most = std::max(most, paid(a) - paid(b));
      }
      if (most >= kForbidden / 2)
        return false;
      sum += most;
    }
    return sum <= 0;
  };
  std::vector<char> gone(order.size(), 0);
  std::vector<int32_t> left;
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0, rivals = 0; j < order.size() && rivals < 150 && !gone[i]; ++j)
      if (i != j && !gone[j]) {
        ++rivals;
        gone[i] = dominates(order[j], order[i]);
      }
    if (!gone[i])
      left.push_back(order[i]);
  }
  std::sort(left.begin(), left.end());
  return left;
}

TEST_CASE("of many options those are left that the definition leaves") {
  Draw draw{std::mt19937_64(29)};
  for (int i = 0; i < 24; ++i) {
    INFO("graph " << i);
    const bool memory = i % 2, forbidden = i % 3 == 0;
    const size_t options = 900, states = 14;
    const Cost range = i % 4 < 2 ? 40 : 400; // few or many are dominated
    WideGraph wide;
    auto list = [&](size_t size, auto make) {
      std::vector<decltype(make())> made(size);
      std::generate(made.begin(), made.end(), make);
      return std::make_shared<const decltype(made)>(std::move(made));
    };
    wide.nodes.push_back({"many", list(options, [&] { return Cost(draw(40)); })});
    for (int u = 0; memory && u < 2; ++u)
      wide.nodes[0].uses.push_back({list(options, [&] { return int64_t(draw(6)); }), u, u + 1});
    wide.memoryLimit = 1000;
    for (int32_t other = 1; other <= 3; ++other) {
      wide.nodes.push_back({"few", list(states, [&] { return Cost(draw(10)); })});
      std::vector<Cost> costs(states * states);
      for (Cost &cost : costs)
        cost = forbidden && draw.chance(0.02) ? kForbidden : Cost(draw(int(range)));
      auto table = std::make_shared<StateTable>(StateTable{states, states, std::move(costs)});
      int32_t next = 0;
      auto mine = list(options, [&] { return draw(int(states)); });
      auto theirs = list(states, [&] { return next++; });
      wide.edges.push_back(other % 2 ? WideEdge{0, other, mine, theirs, table}
                                     : WideEdge{other, 0, theirs, mine, table});
    }
    double work = 0;
    const std::vector<int32_t> expected = leftByDefinition(wide, 0);
    CHECK(expected.size() > 150);
    CHECK(undominated(wide, {}, work)[0] == expected);
    // Nothing is gone of what the neighbours have states for, so that the same holds among the options that are left.
    CHECK(undominatedAmong(wide, everyOption(wide), {}, work)[0] == expected);
  }
}

namespace {

/// Splits all costs in two. Copies are sent, so they are no compute, and edges pay for them.
void addParts(Draw &draw, WideGraph &wide) {
  std::map<const void *, std::shared_ptr<const std::vector<CostParts>>> nodes;
  auto split = [&](Cost cost, Cost least) {
    const Cost compute = cost >= kForbidden ? 0 : Cost(draw(int(cost - least) + 1));
    return CostParts{compute, cost >= kForbidden ? 0 : cost - compute};
  };
  for (WideNode &node : wide.nodes) {
    auto &parts = nodes[node.costs.get()];
    if (!parts) {
      auto made = std::make_shared<std::vector<CostParts>>();
      for (Cost cost : *node.costs)
        made->push_back(split(cost, 0));
      parts = made;
    }
    node.parts = parts;
  }
  std::vector<char> shared(wide.edges.size(), 0);
  for (WideShare &share : wide.shares) {
    auto copies = std::make_shared<SharedCopies>(*share.copies);
    for (Cost cost : copies->prices.costs)
      copies->prices.least.push_back(cost >= kForbidden ? 0 : cost);
    share.copies = copies;
    for (int32_t edge : share.edges)
      shared[size_t(edge)] = 1;
  }
  std::map<const void *, std::shared_ptr<const StateTable>> tables;
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    auto &table = tables[wide.edges[e].table.get()];
    if (!table) {
      auto made = std::make_shared<StateTable>(*wide.edges[e].table);
      for (Cost cost : made->costs) {
        const CostParts parts = split(cost, shared[e] ? cost : 0);
        made->compute.push_back(parts.compute);
        made->least.push_back(parts.least);
      }
      table = made;
    }
    wide.edges[e].table = table;
  }
}

} // namespace

TEST_CASE("weighted costs are sums by weights, and none of their bounds is above the larger part") {
  Draw draw{std::mt19937_64(31)};
  int64_t tried = 0;
  for (int i = 0; i < 150; ++i) {
    WideGraph wide = randomWide(draw, i % 3 ? 0.1 : 0, i % 2 ? 0.7 : 0);
    if (i % 4 > 1)
      addShares(draw, wide);
    addParts(draw, wide);
    const WideGraph compute = weighted(wide, {1, 0}), sent = weighted(wide, {0, 1}), both = weighted(wide, {1, 1});
    const Weights weights{1 + draw(4), 1 + draw(4)};
    const WideGraph mixed = weighted(wide, weights);
    SearchOptions options;
    options.seconds = 1;
    const Solution found = searchWide(mixed, options).solution;
    const Kept all = everyOption(wide);
    std::vector<size_t> at(all.size(), 0);
    std::vector<int32_t> choice(all.size());
    for (bool more = true; more;) {
      for (size_t n = 0; n < all.size(); ++n)
        choice[n] = all[n][at[n]];
      const Cost cost = costOf(wide, choice);
      const Cost c = costOf(compute, choice), m = costOf(sent, choice), w = costOf(mixed, choice);
      if (cost >= kForbidden) {
        CHECK(w >= kForbidden);
      } else {
        CHECK(costOf(both, choice) == cost);
        CHECK(w == weights.compute * c + weights.communication * m);
        const CostParts parts = partsOf(wide, choice);
        CHECK(parts.compute == c);
        CHECK(parts.least == m);
        CHECK(weights.bound(found.lowerBound) <= std::max(c, m));
        ++tried;
      }
      size_t n = 0;
      while (n < all.size() && ++at[n] == all[n].size())
        at[n++] = 0;
      more = n < all.size();
    }
  }
  CHECK(tried > 1000);
}
