//===- SearchTest.cpp - the public entry: limits, budgets, repeatability -------------------------===//
#include "LayeredGraph.h"
#include "RandomGraph.h"

#include "strategies/search/Search.h"

#include <catch2/catch.hpp>

#include <ctime>
#include <thread>

using namespace tessera::strategies;

namespace {

StrategyGraph twoNodes() {
  StrategyGraph g;
  g.addNode({.costs = {3, 1}});
  g.addNode({.costs = {1, 3}});
  g.addEdge(0, 1, {0, 5, 5, 0});
  return g;
}

} // namespace

TEST_CASE("the example of StrategyGraph.h costs 4") {
  for (const std::string &name : searcherNames()) {
    SearchOptions options;
    options.searcher = name;
    StrategyGraph g = twoNodes();
    g.dataParallel = {1, 1};
    Solution s = search(g, options);
    INFO(name);
    CHECK(s.cost == 4);
    CHECK(s.searcher == name);
    CHECK((name == "random" || name == "data" || s.optimal));
  }
}

TEST_CASE("data parallelism is what the graph names, or nothing") {
  SearchOptions options;
  options.searcher = "data";
  StrategyGraph g = twoNodes();
  CHECK(search(g, options).choice.empty());
  g.dataParallel = {0, 1};
  CHECK(search(g, options).choice == Choice{0, 1});
  CHECK(search(g, options).cost == 11);
  CHECK(!search(g, options).optimal);
  g.nodes[1].usages = {3, 9};
  g.nodes[1].liveTo = 1;
  g.memoryLimit = 8;
  CHECK(search(g, options).choice.empty());
}

TEST_CASE("Evaluate judges a choice") {
  StrategyGraph g = twoNodes();
  CHECK(evaluate(g, {0, 0}).cost == 4);
  CHECK(evaluate(g, {0, 1}).cost == 11);
  CHECK(!evaluate(g, {0}).feasible);
  CHECK(!evaluate(g, {0, 2}).feasible);
  CHECK(!evaluate(g, {-1, 0}).feasible);
  g.aliases.push_back({0, 1});
  CHECK(!evaluate(g, {0, 1}).feasible);
  CHECK(evaluate(g, {1, 1}).feasible);
  g.nodes[0].costs[1] = kForbidden;
  CHECK(evaluate(g, {1, 1}).reason == "option 1 of node 0 is forbidden");

  StrategyGraph m;
  m.memoryLimit = 10;
  m.addNode({.costs = {0, 0}, .usages = {6, 4}, .liveFrom = 0, .liveTo = 5});
  m.addNode({.costs = {0}, .usages = {5}, .liveFrom = 4, .liveTo = 9});
  m.addNode({.costs = {0}, .usages = {9}, .liveFrom = 9, .liveTo = 10}); // begins as node 1 ends
  m.addNode({.costs = {0}, .usages = {99}, .liveFrom = 7, .liveTo = 7}); // never live
  CHECK(evaluate(m, {1, 0, 0, 0}).feasible);
  CHECK(evaluate(m, {1, 0, 0, 0}).memoryPeak == 9);
  Evaluation over = evaluate(m, {0, 0, 0, 0});
  CHECK(over.reason == "memory at time 4 is 11, the limit is 10");
  CHECK(over.peakTime == 4);
}

TEST_CASE("graphs without nodes, without edges and with one option are solved") {
  CHECK(search(StrategyGraph()).optimal);
  StrategyGraph g;
  g.addNode({.costs = {7}});
  g.addNode({.costs = {2, 1}});
  Solution s = search(g);
  CHECK(s.optimal);
  CHECK(s.choice == Choice{0, 1});
}

TEST_CASE("a graph that cannot fit is proven infeasible") {
  StrategyGraph g = twoNodes();
  g.nodes[0].usages = {5, 6};
  g.nodes[0].liveTo = 1;
  g.memoryLimit = 4;
  CHECK(search(g).infeasible);
  StrategyGraph f = twoNodes();
  f.edges[0].costs.assign(4, kForbidden);
  Solution s = search(f);
  CHECK(s.infeasible);
  CHECK(s.choice.empty());
  StrategyGraph h; // each part is allowed, their sum is not
  h.addNode({.costs = {kForbidden / 2}});
  h.addNode({.costs = {kForbidden / 2}});
  CHECK(search(h).infeasible);
}

TEST_CASE("costs up to the forbidden value are exact") {
  StrategyGraph g;
  g.addNode({.costs = {kForbidden / 4 + 1, kForbidden / 4}});
  g.addNode({.costs = {1, kForbidden - 1}});
  Solution s = search(g);
  CHECK(s.cost == kForbidden / 4 + 1);
  CHECK(s.choice == Choice{1, 0});
}

TEST_CASE("a graph of the compiler's shape is solved to the optimum without a memory limit") {
  StrategyGraph g = LayeredGraph(60, 12, 1).graph;
  Solution exact = search(g);
  CHECK(exact.optimal);
  SearchOptions options;
  options.searcher = "elimination";
  Solution elimination = search(g, options);
  CHECK(elimination.optimal);
  CHECK(elimination.cost == exact.cost);
  options.searcher = "random";
  options.seconds = 0.2;
  CHECK(search(g, options).cost >= exact.cost);
}

TEST_CASE("a memory limit is kept, at a small gap") {
  StrategyGraph g = LayeredGraph(40, 12, 2).graph;
  Solution unlimited = search(g);
  REQUIRE(unlimited.optimal);
  int64_t peak = evaluate(g, unlimited.choice).memoryPeak, least = leastPeak(g);
  g.memoryLimit = least + (peak - least) / 2;
  SearchOptions options;
  options.gap = 0.01;
  options.seconds = 600;
  options.work = 20;
  Solution s = search(g, options);
  REQUIRE(!s.choice.empty());
  CHECK(evaluate(g, s.choice).feasible);
  CHECK(s.lowerBound >= unlimited.cost);
  CHECK(double(s.cost) <= 1.01 * double(s.lowerBound));
  g.memoryLimit = least - 1;
  CHECK(search(g, options).infeasible);
}

TEST_CASE("the same work gives the same answer") {
  StrategyGraph g = LayeredGraph(12, 10, 3).graph;
  g.memoryLimit = leastPeak(g) * 13 / 10;
  for (int threads : {1, 3}) {
    SearchOptions options;
    options.seconds = 600;
    options.work = 0.05;
    options.threads = threads;
    Solution a = search(g, options), b = search(g, options);
    REQUIRE(!a.choice.empty());
    CHECK(a.choice == b.choice);
    CHECK(a.lowerBound == b.lowerBound);
  }
}

TEST_CASE("a tree search beside the other threads proves the optimum, and gives the same answer each time") {
  StrategyGraph g = LayeredGraph(10, 16, 2).graph;
  g.memoryLimit = leastPeak(g) * 23 / 20;
  Cost least = kForbidden;
  for (int threads : {1, 2}) {
    SearchOptions options;
    options.seconds = 600;
    options.work = 10;
    options.threads = threads;
    Solution a = search(g, options), b = search(g, options);
    CHECK(a.optimal);
    CHECK(a.choice == b.choice);
    CHECK(a.work == b.work);
    CHECK((threads == 1 || a.cost == least));
    least = a.cost;
  }
}

TEST_CASE("a search begins at a given answer, and ignores an answer that does not fit") {
  StrategyGraph g = twoNodes();
  g.addNode({.costs = {0, 0}, .usages = {4, 9}, .liveFrom = 0, .liveTo = 1});
  g.memoryLimit = 5;
  const Choice known = {1, 1, 0}, tooLarge = {0, 0, 1};
  for (const Choice *start : {&known, &tooLarge})
    for (std::vector<double> prices : {std::vector<double>{0.5}, {1, 2, 3}}) { // the latter of another problem
      SearchOptions options;
      options.start = start;
      options.prices = &prices;
      Solution s = search(g, options);
      CHECK(s.optimal);
      CHECK(s.cost == 4);
      CHECK(prices.size() == 1);
    }
}

TEST_CASE("a search that begins with the prices of another one has a better bound for the same work") {
  StrategyGraph g = LayeredGraph(40, 12, 2).graph;
  const int64_t peak = evaluate(g, search(g).choice).memoryPeak, least = leastPeak(g);
  g.memoryLimit = least + (peak - least) / 2;
  auto run = [&](double work, std::vector<double> &prices) {
    SearchOptions options;
    options.seconds = 600;
    options.work = work;
    options.prices = &prices;
    return search(g, options);
  };
  std::vector<double> found;
  run(5, found);
  REQUIRE(std::any_of(found.begin(), found.end(), [](double price) { return price > 0; }));
  CHECK(std::all_of(found.begin(), found.end(), [](double price) { return price >= 0; }));
  // Handed to a search of little work.
  std::vector<double> none, zero(found.size(), 0), other(found.size() + 1, 1), given = found;
  const Solution alone = run(0.001, none), further = run(0.001, given);
  CHECK(further.lowerBound > alone.lowerBound);
  CHECK(given.size() == found.size());
  // Prices of 0, or of another problem, are none.
  for (std::vector<double> *prices : {&zero, &other}) {
    const Solution same = run(0.001, *prices);
    CHECK(same.choice == alone.choice);
    CHECK(same.lowerBound == alone.lowerBound);
    CHECK(*prices == none);
  }
}

TEST_CASE("a bound that is proven elsewhere ends a search at the gap that was asked for") {
  StrategyGraph g = LayeredGraph(40, 12, 2).graph;
  const int64_t peak = evaluate(g, search(g).choice).memoryPeak, least = leastPeak(g);
  g.memoryLimit = least + (peak - least) / 2;
  SearchOptions options;
  options.seconds = 600;
  options.work = 5;
  options.gap = 0.0005;
  const Solution alone = search(g, options);
  REQUIRE(double(alone.cost) <= double(alone.lowerBound) * (1 + options.gap));
  options.bound = alone.lowerBound;
  const Solution bounded = search(g, options);
  CHECK(bounded.work < alone.work);
  CHECK(bounded.lowerBound >= alone.lowerBound);
  CHECK(double(bounded.cost) <= double(bounded.lowerBound) * (1 + options.gap));
}

TEST_CASE("a watch is told what the search finds, and does not change it") {
  StrategyGraph g = LayeredGraph(60, 16, 5).graph;
  g.memoryLimit = leastPeak(g) * 12 / 10;
  SearchOptions options;
  options.work = 0.2;
  options.seconds = 1000;
  const Solution alone = search(g, options);
  SearchWatch watch;
  watch.begin(options.work);
  options.watch = &watch;
  const Solution watched = search(g, options);
  CHECK(watched.choice == alone.choice);
  CHECK(watch.cost == watched.cost);
  CHECK(watch.bound > 0);
  CHECK(watch.bound <= watched.lowerBound);
  CHECK(watch.work > 0);
  // Of a part of a problem, bounds hold up to what is known of the rest.
  SearchWatch part;
  options.watch = &part;
  options.provenUpTo = double(watched.lowerBound) / 2;
  static_cast<void>(search(g, options));
  CHECK(part.bound > 0);
  CHECK(part.bound <= Cost(options.provenUpTo));
}

TEST_CASE("a search ends when it is asked to, with the best it has") {
  StrategyGraph g = LayeredGraph(200, 16, 5).graph;
  g.memoryLimit = leastPeak(g) * 12 / 10;
  SearchOptions options;
  options.seconds = options.work = 1000;
  std::atomic<bool> stop = false;
  SearchWatch watch;
  options.stop = &stop;
  options.watch = &watch;
  std::thread asks([&] {
    while (watch.cost >= kForbidden)
      std::this_thread::yield();
    stop = true;
  });
  const Solution found = search(g, options);
  asks.join();
  CHECK(!found.choice.empty());
  CHECK(found.seconds < 500);
}

TEST_CASE("a search with too short a budget returns in time") {
  StrategyGraph g = LayeredGraph(200, 30, 4).graph;
  g.memoryLimit = leastPeak(g) * 15 / 10;
  for (const std::string &name : searcherNames()) {
    SearchOptions options;
    options.seconds = 0.4;
    options.searcher = name;
    const clock_t before = clock();
    Solution s = search(g, options);
    INFO(name);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // The thread's own time counts, which does not grow when the machine is busy.
    CHECK(double(clock() - before) / CLOCKS_PER_SEC < options.seconds + 0.25);
#endif
    CHECK(!s.infeasible);
    if (!s.choice.empty())
      CHECK(evaluate(g, s.choice).feasible);
  }
}

TEST_CASE("a search without time returns a greedy answer that fits") {
  StrategyGraph g = LayeredGraph(60, 16, 5).graph;
  g.memoryLimit = leastPeak(g) * 12 / 10;
  for (const std::string &name : searcherNames()) {
    if (name == "elimination" || name == "data") // one answer or nothing
      continue;
    SearchOptions options;
    options.seconds = 0;
    options.searcher = name;
    Solution s = search(g, options);
    INFO(name);
    REQUIRE(!s.choice.empty());
    CHECK(evaluate(g, s.choice).feasible);
    CHECK(s.lowerBound <= s.cost);
  }
}

TEST_CASE("an elimination that takes long finds the best answer, whatever answer is known before") {
  // Eliminating all of such a group takes a table of 8^8 entries.
  constexpr int kGroup = 8, kNodes = 3 * kGroup, kOptions = 8;
  std::mt19937_64 random(1);
  auto draw = [&](int most) { return Cost(random() % uint64_t(most)); };
  StrategyGraph g;
  for (int n = 0; n < kNodes; ++n) {
    StrategyNode node;
    for (int s = 0; s < kOptions; ++s)
      node.costs.push_back(draw(150));
    g.addNode(node);
  }
  for (int a = 0; a < kNodes; ++a)
    for (int b = a + 1; b < kNodes; ++b)
      if (a / kGroup == b / kGroup) {
        std::vector<Cost> costs;
        for (int s = 0; s < kOptions * kOptions; ++s)
          costs.push_back(draw(50));
        g.addEdge(a, b, costs);
      }
  const Solution whole = search(g);
  REQUIRE(whole.optimal);
  const Choice bad(kNodes, 0);
  for (const Choice &start : {bad, whole.choice}) {
    SearchOptions options;
    options.start = &start;
    const Solution found = search(g, options);
    CHECK(found.optimal);
    CHECK(found.cost == whole.cost);
  }
}
