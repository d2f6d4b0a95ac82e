//===- WideTest.cpp - searches over every option agree with enumeration ---------------------------===//
#include "RandomGraph.h"

#include "strategies/search/Evaluate.h"
#include "strategies/search/wide/Reparametrized.h"
#include "strategies/search/wide/SearchWide.h"
#include "strategies/search/wide/Undominated.h"
#include "strategies/search/wide/WideDual.h"
#include "strategies/space/StrategyGraphIO.h"
#include "strategies/space/Weighted.h"

#include <catch2/catch.hpp>

#include <map>
#include <utility>

using namespace tessera::strategies;

namespace {

struct Draw {
  std::mt19937_64 random;
  int operator()(int n) { return int(random() % uint64_t(n)); }
  bool chance(double p) { return double(random() >> 11) * 0x1p-53 < p; }
};

/// Lists of options, tables and bytes are shared between nodes now and then, as equal layers share them.
WideGraph randomWide(Draw &draw, double forbidden, double memory) {
  WideGraph wide;
  const int n = 2 + draw(4), kinds = 1 + draw(2);
  std::vector<std::shared_ptr<std::vector<Cost>>> costs;
  std::vector<std::shared_ptr<std::vector<int64_t>>> bytes;
  for (int kind = 0; kind < kinds; ++kind) {
    costs.push_back(std::make_shared<std::vector<Cost>>());
    bytes.push_back(std::make_shared<std::vector<int64_t>>());
    const int options = 1 + draw(7);
    for (int k = 0; k < options; ++k) {
      costs.back()->push_back(draw.chance(forbidden / 2) ? kForbidden : Cost(draw(40)));
      bytes.back()->push_back(draw(20));
    }
  }
  std::vector<int> kindOf;
  for (int i = 0; i < n; ++i) {
    kindOf.push_back(draw(kinds));
    WideNode node{"n" + std::to_string(i), costs[size_t(kindOf.back())]};
    for (int u = draw(3); memory > 0 && u > 0; --u) {
      const int64_t from = draw(6);
      node.uses.push_back({bytes[size_t(kindOf.back())], from, from + 1 + draw(4)});
    }
    wide.nodes.push_back(std::move(node));
  }
  std::vector<std::shared_ptr<const StateTable>> tables;
  std::vector<std::vector<std::shared_ptr<const std::vector<int32_t>>>> states(static_cast<size_t>(kinds));
  for (int t = 0; t < 2; ++t) {
    auto table = std::make_shared<StateTable>();
    table->rows = table->columns = 3;
    for (int i = 0; i < 9; ++i)
      table->costs.push_back(draw.chance(forbidden) ? kForbidden : Cost(draw(40)));
    tables.push_back(table);
  }
  for (int kind = 0; kind < kinds; ++kind)
    for (int t = 0; t < 2; ++t) {
      auto list = std::make_shared<std::vector<int32_t>>();
      for (size_t k = 0; k < costs[size_t(kind)]->size(); ++k)
        list->push_back(draw(3));
      states[size_t(kind)].push_back(list);
    }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      if (i != j && draw.chance(0.35))
        wide.edges.push_back({i, j, states[size_t(kindOf[size_t(i)])][size_t(draw(2))],
                              states[size_t(kindOf[size_t(j)])][size_t(draw(2))], tables[size_t(draw(2))]});
  if (memory > 0) {
    int64_t most = 0;
    for (int64_t t = 0; t < 12; ++t) {
      int64_t sum = 0;
      for (const WideNode &node : wide.nodes)
        for (const WideUse &use : node.uses)
          if (use.liveFrom <= t && t < use.liveTo)
            sum += *std::max_element(use.bytes->begin(), use.bytes->end());
      most = std::max(most, sum);
    }
    wide.memoryLimit = int64_t(memory * double(most));
  }
  return wide;
}

/// Edges of one producer get prices of copies that they share.
void addShares(Draw &draw, WideGraph &wide) {
  for (size_t n = 0; n < wide.nodes.size(); ++n) {
    if (draw.chance(0.3))
      continue;
    auto copies = std::make_shared<SharedCopies>();
    copies->prices.rows = copies->prices.columns = 3;
    for (int i = 0; i < 9; ++i)
      copies->prices.costs.push_back(draw.chance(0.2) ? 0 : draw.chance(0.1) ? kForbidden : Cost(draw(40)));
    auto handed = std::make_shared<std::vector<int32_t>>();
    for (size_t k = 0; k < wide.nodes[n].costs->size(); ++k)
      handed->push_back(draw(3));
    WideShare share;
    const bool several = draw.chance(0.3);
    for (size_t to = 0; to < wide.nodes.size(); ++to)
      for (int twice = 0; to != n && twice < 2; ++twice) {
        if (!draw.chance(twice ? 0.1 : 0.7))
          continue;
        auto state = std::make_shared<std::vector<int32_t>>();
        for (size_t k = 0; k < wide.nodes[to].costs->size(); ++k)
          state->push_back(draw(4));
        auto table = std::make_shared<StateTable>(StateTable{3, 4, std::vector<Cost>(12, 0)});
        auto &wants = copies->wants.emplace_back(4);
        for (size_t t = 0; t < 4; ++t)
          for (int32_t copy = 0; copy < 3; ++copy) {
            if (several ? !draw.chance(0.4) : size_t(copy) != t)
              continue;
            wants[t].push_back(copy);
            for (size_t row = 0; row < 3; ++row)
              table->costs[row * 4 + t] =
                  std::min(kForbidden, table->costs[row * 4 + t] + copies->prices.costs[row * 3 + size_t(copy)]);
          }
        share.edges.push_back(int32_t(wide.edges.size()));
        wide.edges.push_back({int32_t(n), int32_t(to), handed, state, table});
      }
    share.copies = copies;
    if (share.edges.size() > 1)
      wide.shares.push_back(std::move(share));
  }
}

/// What a choice of options of the wide graph costs; kForbidden where it does not fit.
Cost costOf(const WideGraph &wide, const std::vector<int32_t> &choice) {
  std::vector<char> shared(wide.edges.size(), 0);
  Cost sum = 0;
  for (const WideShare &share : wide.shares) {
    std::vector<char> paid(share.copies->prices.columns, 0);
    for (size_t r = 0; r < share.edges.size(); ++r) {
      const WideEdge &edge = wide.edges[size_t(share.edges[r])];
      shared[size_t(share.edges[r])] = 1;
      const size_t row = size_t((*edge.fromState)[size_t(choice[size_t(edge.from)])]);
      for (int32_t copy : share.copies->wants[r][size_t((*edge.toState)[size_t(choice[size_t(edge.to)])])])
        if (!std::exchange(paid[size_t(copy)], 1))
          sum = std::min(kForbidden, sum + share.copies->prices.costs[row * paid.size() + size_t(copy)]);
    }
  }
  for (size_t n = 0; n < choice.size(); ++n)
    sum = std::min(kForbidden, sum + (*wide.nodes[n].costs)[size_t(choice[n])]);
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    const WideEdge &edge = wide.edges[e];
    if (!shared[e])
      sum = std::min(
          kForbidden,
          sum + edge.table->costs[size_t((*edge.fromState)[size_t(choice[size_t(edge.from)])]) * edge.table->columns +
                                  size_t((*edge.toState)[size_t(choice[size_t(edge.to)])])]);
  }
  for (int64_t t = 0; t < 12; ++t) {
    int64_t bytes = 0;
    for (size_t n = 0; n < choice.size(); ++n)
      for (const WideUse &use : wide.nodes[n].uses)
        if (use.liveFrom <= t && t < use.liveTo)
          bytes += (*use.bytes)[size_t(choice[n])];
    if (bytes > wide.memoryLimit)
      return kForbidden;
  }
  return sum;
}

/// The least cost among the kept options, by enumeration.
Cost leastOf(const WideGraph &wide, const Kept &kept) {
  std::vector<size_t> at(kept.size(), 0);
  std::vector<int32_t> choice(kept.size());
  for (Cost best = kForbidden;;) {
    for (size_t n = 0; n < kept.size(); ++n)
      choice[n] = kept[n][at[n]];
    best = std::min(best, costOf(wide, choice));
    size_t n = 0;
    while (n < kept.size() && ++at[n] == kept[n].size())
      at[n++] = 0;
    if (n == kept.size())
      return best;
  }
}

/// The least cost with option k of node n.
Cost bestWith(const WideGraph &wide, size_t n, int32_t k) {
  Kept kept = everyOption(wide);
  kept[n] = {k};
  return leastOf(wide, kept);
}

bool empty(const Kept &kept) {
  return std::any_of(kept.begin(), kept.end(), [](const auto &list) { return list.empty(); });
}

} // namespace

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
      copies->prices.parts.push_back({0, cost >= kForbidden ? 0 : cost});
    share.copies = copies;
    for (int32_t edge : share.edges)
      shared[size_t(edge)] = 1;
  }
  std::map<const void *, std::shared_ptr<const StateTable>> tables;
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    auto &table = tables[wide.edges[e].table.get()];
    if (!table) {
      auto made = std::make_shared<StateTable>(*wide.edges[e].table);
      for (Cost cost : made->costs)
        made->parts.push_back(split(cost, shared[e] ? cost : 0));
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
