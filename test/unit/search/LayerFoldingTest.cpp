//===- LayerFoldingTest.cpp - repeated layers take one choice --------------------------------------===//
#include "RandomGraph.h"

#include "strategies/search/Evaluate.h"
#include "strategies/search/Search.h"
#include "strategies/search/problem/Problem.h"
#include "strategies/search/reduce/LayerFolding.h"

#include <catch2/catch.hpp>

#include <set>

using namespace tessera::strategies;

namespace {

/// Equal layers, one after the other: an activation, which reads the one before it, and a weight; a backward pass
/// in the opposite order reads the activations. An update is an alias of its weight that lives to the end.
StrategyGraph layers(int count, int64_t limit, uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  auto costs = [&](size_t n, int most) {
    std::vector<int64_t> list;
    for (size_t i = 0; i < n; ++i)
      list.push_back(int64_t(random() % uint64_t(most)));
    return list;
  };
  const auto forward = costs(5, 1000), backward = costs(4, 1000), weight = costs(3, 1000);
  const auto forwardBytes = costs(5, 100), weightBytes = costs(3, 100);
  const auto step = costs(25, 500), use = costs(15, 500), back = costs(20, 500), steps = costs(16, 500);
  StrategyGraph graph;
  graph.memoryLimit = limit;
  std::vector<int32_t> activations;
  const int64_t end = 2 * count + 1;
  for (int l = 0; l < count; ++l) {
    int32_t w = graph.addNode({.costs = weight});
    int32_t update = graph.addNode({.costs = {0, 0, 0}, .usages = weightBytes, .liveFrom = 0, .liveTo = end});
    graph.aliases.push_back({w, update});
    int32_t a = graph.addNode({.costs = forward, .usages = forwardBytes, .liveFrom = l, .liveTo = 2 * count - l});
    if (l)
      graph.addEdge(activations.back(), a, step);
    graph.addEdge(a, w, use);
    activations.push_back(a);
  }
  int32_t last = -1;
  for (int l = count; l-- > 0;) {
    int32_t g = graph.addNode({.costs = backward});
    graph.addEdge(activations[size_t(l)], g, back);
    if (last >= 0)
      graph.addEdge(last, g, steps);
    last = g;
  }
  return graph;
}

} // namespace

TEST_CASE("a folded problem's answers are answers of the whole, at the same price") {
  std::mt19937_64 random(7);
  const RandomGraphOptions shape{
      .nodes = 12, .options = 3, .density = 0.3, .forbidden = 0.1, .memory = 0.6, .aliases = true};
  for (int round = 0; round < 200; ++round) {
    StrategyGraph graph = round % 2 ? randomGraph(random, shape) : layers(2 + round % 7, 1 << 20);
    LayerFolding fold(graph, Problem(graph).variableOf, round % 4);
    Choice folded;
    for (const StrategyNode &node : fold.graph.nodes)
      folded.push_back(int32_t(random() % node.costs.size()));
    for (auto [a, b] : fold.graph.aliases)
      folded[size_t(b)] = folded[size_t(a)];
    Evaluation small = evaluate(fold.graph, folded), whole = evaluate(graph, fold.unfold(folded));
    CHECK(small.cost == whole.cost);
    CHECK(small.memoryPeak == whole.memoryPeak);
    CHECK(small.feasible == whole.feasible);
  }
}

TEST_CASE("the number of groups does not grow with the number of layers") {
  auto groups = [](int count) {
    StrategyGraph graph = layers(count, 1 << 20);
    return LayerFolding(graph, Problem(graph).variableOf, 2).groups;
  };
  CHECK(groups(8) == groups(40));
  CHECK(groups(8) <= 3 * 3 + 4); // a layer's three variables, and those near either end
}

TEST_CASE("under a tight limit a deep network is solved no worse than its fold") {
  const int count = 300;
  Solution roomy = search(layers(count, 1 << 30), {.work = 0.03});
  REQUIRE(!roomy.choice.empty());
  const int64_t peak = evaluate(layers(count, 1 << 30), roomy.choice).memoryPeak;
  const StrategyGraph graph = layers(count, peak * 9 / 10);
  LayerFolding fold(graph, Problem(graph).variableOf);
  Solution folded = search(fold.graph), tight = search(graph, {.work = 0.03});
  REQUIRE(!folded.choice.empty());
  REQUIRE(!tight.choice.empty());
  CHECK(tight.cost <= folded.cost);
  CHECK(double(tight.cost - tight.lowerBound) <= 0.01 * double(tight.cost));
}

TEST_CASE("where equal layers cannot all choose alike, a search soon finds how many of them do") {
  const int count = 300;
  for (auto [seed, part, gap] : {std::tuple(20, 0.9, 0.001), {29, 0.8, 0.03}, {29, 0.95, 0.03}}) {
    Solution roomy = search(layers(count, 1 << 30, uint64_t(seed)), {.work = 0.03});
    REQUIRE(!roomy.choice.empty());
    const int64_t peak = evaluate(layers(count, 1 << 30, uint64_t(seed)), roomy.choice).memoryPeak;
    Solution tight = search(layers(count, int64_t(part * double(peak)), uint64_t(seed)), {.work = 0.02});
    REQUIRE(!tight.choice.empty());
    INFO("seed " << seed << ", " << part);
    CHECK(double(tight.cost - tight.lowerBound) <= gap * double(tight.cost));
  }
}

TEST_CASE("layers are found to be alike where their costs have been divided otherwise") {
  const int count = 300;
  int folded = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const Solution roomy = search(layers(count, 1 << 30, seed), {.work = 0.03});
    REQUIRE(!roomy.choice.empty());
    const int64_t peak = evaluate(layers(count, 1 << 30, seed), roomy.choice).memoryPeak;
    const StrategyGraph graph = layers(count, peak * 19 / 20, seed);
    // Each edge takes some of what an option of its end costs, another part in each layer.
    StrategyGraph moved = graph;
    std::mt19937_64 random(seed + 100);
    for (StrategyEdge &edge : moved.edges) {
      std::vector<Cost> &costs = moved.nodes[size_t(edge.from)].costs;
      const size_t columns = edge.costs.size() / costs.size();
      for (size_t s = 0; s < costs.size(); ++s) {
        const Cost part = Cost(random() % uint64_t(costs[s] + 1));
        costs[s] -= part;
        for (size_t t = 0; t < columns; ++t)
          edge.costs[s * columns + t] += part;
      }
    }
    SearchOptions options{.work = 0.03};
    const Solution apart = search(moved, options);
    options.alike = &graph;
    const Solution alike = search(moved, options);
    if (alike.choice.empty())
      continue;
    CHECK(evaluate(graph, alike.choice).cost == alike.cost);
    CHECK(alike.cost <= apart.cost);
    folded += alike.work != apart.work; // a search far from the bound solves the folded problem
  }
  CHECK(folded >= 5);
}
