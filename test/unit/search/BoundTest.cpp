//===- BoundTest.cpp - elimination, reductions and bounds against enumeration --------------------===//
#include "RandomGraph.h"

#include "strategies/search/Incumbent.h"
#include "strategies/search/bound/BothSides.h"
#include "strategies/search/bound/Dual.h"
#include "strategies/search/bound/ParetoElimination.h"
#include "strategies/search/local/Neighbourhood.h"
#include "strategies/search/problem/MemoryPoints.h"
#include "strategies/search/reduce/Eliminate.h"
#include "strategies/search/reduce/Reduce.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;

namespace {
const RandomGraphOptions kShape{
    .nodes = 7, .options = 4, .density = 0.5, .forbidden = 0.1, .memory = 0.6, .aliases = true};
} // namespace

TEST_CASE("elimination equals enumeration") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const int n = 1 + int(random() % 6);
    std::vector<int32_t> sizes;
    std::vector<std::vector<double>> unary, matrices;
    for (int v = 0; v < n; ++v) {
      sizes.push_back(1 + int32_t(random() % 6));
      unary.emplace_back();
      for (int s = 0; s < sizes.back(); ++s)
        unary.back().push_back(double(random() % 100));
    }
    std::vector<std::pair<int, int>> ends;
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < a; ++b)
        if (random() % 2) {
          std::vector<double> rows(size_t(sizes[a] * sizes[b])), turned(rows.size());
          for (int s = 0; s < sizes[a]; ++s)
            for (int t = 0; t < sizes[b]; ++t)
              turned[size_t(t * sizes[a] + s)] = rows[size_t(s * sizes[b] + t)] = double(random() % 100);
          matrices.push_back(rows);
          matrices.push_back(turned);
          ends.push_back({a, b});
        }
    std::vector<EliminationEdge> edges;
    for (size_t e = 0; e < ends.size(); ++e)
      edges.push_back({ends[e].first, ends[e].second, matrices[2 * e].data(), matrices[2 * e + 1].data()});
    EliminationPlan plan(sizes, edges, {1e6, 1e7});
    REQUIRE(plan.fits());
    std::vector<const double *> pointers;
    for (auto &u : unary)
      pointers.push_back(u.data());
    auto price = [&](const std::vector<int32_t> &y) {
      double sum = 0;
      for (int v = 0; v < n; ++v)
        sum += unary[v][y[v]];
      for (const EliminationEdge &e : edges)
        sum += e.rowsA[y[e.a] * sizes[e.b] + y[e.b]];
      return sum;
    };
    double best = 1e300;
    std::vector<int32_t> y(n, 0), answer;
    for (int i = 0; i < n;) {
      best = std::min(best, price(y));
      for (i = 0; i < n && ++y[i] == sizes[i]; ++i)
        y[i] = 0;
    }
    for (int again = 0; again < 2; ++again) { // a plan may be run more than once
      CHECK(plan.run(pointers, answer) == best);
      CHECK(price(answer) == best);
    }
  }
}

TEST_CASE("a plan beyond its limits is refused") {
  std::vector<double> m(100 * 100, 1);
  std::vector<EliminationEdge> edges;
  for (int a = 0; a < 6; ++a)
    for (int b = 0; b < a; ++b)
      edges.push_back({a, b, m.data(), m.data()});
  CHECK(!EliminationPlan(std::vector<int32_t>(6, 100), edges, {1e6, 1e7}).fits());
}

TEST_CASE("reductions keep the least cost, also through nested scopes") {
  std::mt19937_64 random(12);
  int solved = 0;
  for (int round = 0; round < 800; ++round) {
    StrategyGraph g = randomGraph(random, kShape);
    const Cost least = bruteForce(g);
    Scope scope(g);
    reduce(scope.problem);
    INFO("round " << round);
    if (scope.problem.infeasible) {
      REQUIRE(least >= kForbidden);
      continue;
    }
    Scope inner(scope, scope.problem);
    FlatProblem flat(inner.problem);
    // Enumerate what is left; the judge must agree with the price of each answer.
    Answer answer(size_t(flat.count()), 0);
    Cost found = kForbidden;
    bool more = true;
    while (more) {
      Evaluation judged = evaluate(g, inner.lift(flat.ids(inner.problem, answer)));
      const double price = flat.price(answer);
      if (price < kFlatForbidden) {
        REQUIRE(double(judged.cost) == price);
        REQUIRE(judged.feasible == (flat.excess(flat.load(answer)) <= 0));
      } else {
        REQUIRE(!judged.feasible);
      }
      if (judged.feasible)
        found = std::min(found, judged.cost);
      size_t i = 0;
      while (i < answer.size() && ++answer[i] == flat.size(int32_t(i)))
        answer[i++] = 0;
      more = i < answer.size();
    }
    REQUIRE(found == least);
    ++solved;
  }
  CHECK(solved > 300);
}

TEST_CASE("bounds and reduced costs never exceed the truth") {
  std::mt19937_64 random(13);
  int tight = 0, total = 0, knapsacks = 0, risen = 0;
  for (int round = 0; round < 400; ++round) {
    // Without options that cannot occur: the bounds expect the reductions to have dropped those.
    StrategyGraph g = randomGraph(random, {.nodes = 7, .density = 0.6, .forbidden = 0, .memory = 0.6});
    Problem problem(g);
    if (problem.room.empty() || *std::min_element(problem.room.begin(), problem.room.end()) < 0)
      continue;
    FlatProblem flat(problem);
    const std::pair<std::vector<double>, double> enumerated = leastCosts(flat);
    const std::vector<double> &least = enumerated.first;
    const double best = enumerated.second;
    if (best >= kFlatForbidden)
      continue;
    ++total;
    Dual dual(flat);
    auto check = [&](double bound) {
      REQUIRE(bound <= best + 1e-6);
      std::vector<double> reduced = dual.reducedCosts();
      for (size_t s = 0; s < reduced.size(); ++s) {
        // Costs that contain a forbidden entry have lost their small digits.
        if (least[s] < kFlatForbidden)
          REQUIRE(bound + reduced[s] <= least[s] + 1e-6);
        REQUIRE(reduced[s] >= -1e-6 * (1 + std::abs(reduced[s])));
      }
    };
    for (int pass = 0; pass < 60; ++pass) {
      check(dual.pass());
      dual.stepPrices(best);
    }
    tight += dual.best() > best - 1;
    // Knapsacks only add to that, and no pass takes any of it back.
    const double priced = dual.best();
    if (dual.addKnapsacks()) {
      ++knapsacks;
      double before = priced;
      for (int pass = 0; pass < 40; ++pass) {
        const double bound = dual.pass();
        REQUIRE(bound >= before - 1e-6);
        before = bound;
        check(bound);
      }
      risen += before > priced + 0.1;
    }
    Answer answer(size_t(flat.count()));
    // The bound moves into the costs of the problem, and the problem stays the same.
    Problem moved(problem);
    dual.moveInto(moved);
    FlatProblem after(moved);
    for (int i = 0; i < 20; ++i) {
      for (int32_t v = 0; v < flat.count(); ++v)
        answer[size_t(v)] = int32_t(random() % uint64_t(flat.size(v)));
      if (flat.price(answer) < kFlatForbidden)
        REQUIRE(after.price(answer) == flat.price(answer));
      else
        REQUIRE(after.price(answer) >= kFlatForbidden);
    }
    Dual again(after);
    again.setPrices(dual.prices());
    again.pass();
    REQUIRE(again.pass() >= priced - double(after.costs.size() + after.matrices.size()));
    REQUIRE(again.best() <= best + 1e-6);
  }
  CHECK(knapsacks > total / 4);
  CHECK(risen > knapsacks / 4);
  CHECK(total > 100);
  CHECK(tight > total / 4); // the bound is worth something
}

TEST_CASE("the bound's answers on both sides of the limit have a mix that is near the bound") {
  // 40 equal layers, of which 22 and a half may take the option that is faster.
  StrategyGraph graph;
  graph.memoryLimit = 2250;
  for (int l = 0; l < 40; ++l) {
    graph.addNode({.costs = {1000, 1100}, .usages = {100, 0}, .liveFrom = 0, .liveTo = 10});
    graph.addNode({.costs = {500, 400, 600}});
    graph.addEdge(2 * l, 2 * l + 1, {0, 300, 50, 200, 100, 0});
    if (l)
      graph.addEdge(2 * l - 1, 2 * l, {0, 0, 0, 0, 0, 0});
  }
  const Problem problem(graph);
  const FlatProblem flat(problem);
  Dual dual(flat);
  BothSides sides(flat);
  for (int pass = 0; pass < 60; ++pass) {
    dual.pass();
    CHECK(sides.see(dual) > 0);
    dual.stepPrices(1e9);
  }
  REQUIRE(sides.known());
  CHECK(flat.excess(flat.load(sides.fitting())) <= 0);
  CHECK(flat.excess(flat.load(sides.exceeding())) > 0);
  Neighbourhood mix(flat, sides.fitting(), dual.prices(), 1);
  double work = 0;
  REQUIRE(mix.merge(sides.exceeding(), work));
  CHECK(mix.bestCost() < flat.price(sides.fitting()));
  CHECK(flat.excess(flat.load(mix.best())) <= 0);
  CHECK(mix.bestCost() - dual.best() <= 100); // half of a layer's
}

TEST_CASE("neighbourhood search reports what it has") {
  std::mt19937_64 random(14);
  int optimal = 0, total = 0;
  for (int round = 0; round < 150; ++round) {
    StrategyGraph g = randomGraph(random, kShape);
    const Cost least = bruteForce(g);
    Problem problem(g);
    FlatProblem flat(problem);
    Neighbourhood search(flat, Answer(size_t(flat.count()), 0), std::vector<double>(flat.room.size(), 0), 1);
    double work = 0;
    for (int i = 0; i < 150; ++i) {
      search.setGuidance(i % 3 == 0 ? 1 : 0);
      search.step(work);
    }
    CHECK(work > 0);
    if (!search.fits())
      continue;
    ++total;
    REQUIRE(flat.excess(flat.load(search.best())) <= 0);
    REQUIRE(flat.price(search.best()) == search.bestCost());
    REQUIRE(search.bestCost() >= double(least));
    optimal += search.bestCost() == double(least);
  }
  CHECK(total > 50);
  CHECK(optimal > total * 8 / 10);
}

TEST_CASE("elimination with memory equals enumeration") {
  std::mt19937_64 random(15);
  int found = 0, nothing = 0, givenUp = 0;
  for (int round = 0; round < 1500; ++round) {
    // Forbidden costs and the reductions are left out so that the cores stay large.
    StrategyGraph g = randomGraph(random, {.nodes = 7, .density = 0.6, .forbidden = 0, .memory = 0.55});
    Problem problem(g);
    if (problem.room.empty() || *std::min_element(problem.room.begin(), problem.room.end()) < 0)
      continue;
    FlatProblem flat(problem);
    const Cost least = bruteForce(g);
    Dual dual(flat);
    for (int pass = 0; pass < 10; ++pass) {
      dual.pass();
      dual.stepPrices(double(least));
    }
    dual.pass();
    INFO("round " << round);
    // There is an answer below a limit just above the least cost, and none below the least cost.
    for (double limit : {kFlatForbidden, double(least) + 1, double(least)}) {
      Answer answer;
      double work = 0;
      auto result = ParetoElimination(flat, dual, limit).run(1e9, work, answer);
      REQUIRE(result != ParetoElimination::TooLarge);
      if (limit <= double(least) || least >= kForbidden) {
        REQUIRE(result == ParetoElimination::Nothing);
        ++nothing;
        continue;
      }
      REQUIRE(result == ParetoElimination::Found);
      REQUIRE(flat.price(answer) == double(least));
      REQUIRE(flat.excess(flat.load(answer)) <= 0);
      ++found;
    }
    Answer answer;
    double work = 0;
    // With hardly any work most trials are given up, and none with an answer is excluded.
    if (least >= kForbidden)
      continue;
    auto result = ParetoElimination(flat, dual, kFlatForbidden).run(10, work, answer);
    REQUIRE(result != ParetoElimination::Nothing);
    givenUp += result == ParetoElimination::TooLarge;
  }
  CHECK(found > 300);
  CHECK(nothing > 300);
  CHECK(givenUp > 100);
}

TEST_CASE("elimination with memory ends within a few steps of its budget") {
  // Memory binds at six times at once. Hardly any label dominates another, so the lists multiply with every variable.
  std::mt19937_64 random(16);
  StrategyGraph g;
  for (int v = 0; v < 40; ++v)
    for (int t = 0; t < 6; ++t) {
      StrategyNode node{.costs = {}, .liveFrom = 2 * t, .liveTo = 2 * t + 1};
      for (int s = 0; s < 6; ++s) {
        node.costs.push_back(Cost(random() % 1'000'000));
        node.usages.push_back(int64_t(random() % 1'000'000));
      }
      const int32_t id = g.addNode(node);
      if (t)
        g.aliases.push_back({id - 1, id});
    }
  g.memoryLimit = 16'000'000;
  Problem problem(g);
  FlatProblem flat(problem);
  Dual dual(flat);
  dual.pass();
  for (int polls : {1, 3, 30}) { // what the clock ends
    Answer answer;
    double work = 0;
    int asked = 0;
    ParetoElimination labels(flat, dual, kFlatForbidden, [&] { return ++asked >= polls; });
    CHECK(labels.run(1e12, work, answer) == ParetoElimination::TooLarge);
    CHECK(asked == polls);
    CHECK(work < 1e7 * polls);
  }
  for (double most : {1e5, 1e6, 1e8}) { // what counted work ends
    Answer answer;
    double work = 0;
    CHECK(ParetoElimination(flat, dual, kFlatForbidden).run(most, work, answer) == ParetoElimination::TooLarge);
    CHECK(work < 1.1 * most + 1e5);
  }
}

TEST_CASE("reductions look at the clock by work, not by variables") {
  std::mt19937_64 random(17);
  StrategyGraph g; // few variables of many options
  for (int v = 0; v < 18; ++v) {
    StrategyNode node;
    for (int s = 0; s < 300; ++s)
      node.costs.push_back(Cost(random() % 1000));
    g.addNode(node);
    for (int u = 0; u < v; ++u) {
      std::vector<Cost> costs;
      for (int i = 0; i < 300 * 300; ++i)
        costs.push_back(Cost(random() % 1'000'000));
      g.addEdge(u, v, costs);
    }
  }
  Problem whole(g), cut(g);
  int asked = 0;
  reduce(whole, [&] { return ++asked, false; });
  CHECK(asked >= 5);
  // A reduction that ends early leaves the same problem.
  int polls = 0;
  reduce(cut, [&] { return ++polls >= 2; });
  CHECK(polls < asked);
  REQUIRE(!cut.infeasible);
}

TEST_CASE("a change is made in those parts that fit and lower the cost") {
  // The example of PartialChange.h: three variables without edges, one memory point with 2 bytes free.
  StrategyGraph g;
  g.addNode({.costs = {5, 0}, .usages = {0, 3}, .liveFrom = 0, .liveTo = 1});
  g.addNode({.costs = {5, 0}, .usages = {0, 3}, .liveFrom = 0, .liveTo = 1});
  g.addNode({.costs = {0, 2}, .usages = {1, 0}, .liveFrom = 0, .liveTo = 1});
  g.memoryLimit = 3;
  Problem problem(g);
  FlatProblem flat(problem);
  REQUIRE(flat.count() == 3);
  PartialChange parts(flat);
  const Answer x{0, 0, 0};
  Answer to{1, 1, 1};
  const std::vector<double> price(flat.room.size(), 1);
  CHECK(parts.choose({0, 1, 2}, x, to, x, flat.load(x), price, price, 0) == -3);
  CHECK((to == Answer{1, 0, 1} || to == Answer{0, 1, 1}));
  CHECK(parts.takeWork() > 0);

  // An edge does not join them whose price is that of either end's option.
  g.addEdge(0, 1, {3, 4, 6, 7});
  Problem joined(g);
  FlatProblem withEdge(joined);
  REQUIRE(withEdge.edges.size() == 1);
  PartialChange alone(withEdge);
  to = {1, 1, 1};
  CHECK(alone.choose({0, 1, 2}, x, to, x, withEdge.load(x), price, price, 0) == -2);
  CHECK(to == Answer{0, 1, 1});

  std::mt19937_64 random(18);
  int better = 0, cut = 0;
  for (int round = 0; round < 3000; ++round) {
    const bool limited = round % 4; // without a limit there are no memory points
    Problem problem(randomGraph(random, {.nodes = 9, .density = 0.25, .forbidden = 0, .memory = limited ? 0.6 : 0.0}));
    FlatProblem flat(problem);
    Answer x, to;
    std::vector<int32_t> members;
    for (int32_t v = 0; v < flat.count(); ++v) {
      x.push_back(int32_t(random() % uint64_t(flat.size(v))));
      to.push_back(int32_t(random() % uint64_t(flat.size(v))));
      members.push_back(v);
    }
    const std::vector<double> load = flat.load(x), rates(flat.room.size(), 0.1);
    if (flat.excess(load) > 0 || flat.price(x) >= kFlatForbidden)
      continue;
    const Answer from = x, wanted = to;
    PartialChange parts(flat);
    const double change = parts.choose(members, from, to, x, load, rates, rates, 0);
    INFO("round " << round);
    REQUIRE(flat.price(to) - flat.price(x) == Approx(change).margin(1e-6));
    REQUIRE(flat.excess(flat.load(to)) <= 0);
    REQUIRE((flat.hasMemory() || change <= 0)); // parts that cost more are not made
    for (int32_t v = 0; v < flat.count(); ++v)
      REQUIRE((to[v] == x[v] || to[v] == wanted[v]));
    better += change < 0;
    cut += change < 0 && to != wanted;
  }
  CHECK(better > 500);
  CHECK(cut > 200);
}

TEST_CASE("the least differences of a matrix's rows are those of its definition") {
  std::mt19937_64 random(5);
  for (size_t rows = 1; rows < 12; ++rows)
    for (size_t columns : {1, 3, 8, 17}) {
      INFO(rows << " rows, " << columns << " columns");
      std::vector<double> m(rows * columns), p(rows), q(columns, -1);
      for (double &x : m)
        x = double(random() % 100);
      for (double &x : p)
        x = double(random() % 100);
      minPlus(m.data(), p.data(), rows, columns, q.data());
      for (size_t s = 0; s < columns; ++s) {
        double least = m[s] - p[0];
        for (size_t t = 1; t < rows; ++t)
          least = std::min(least, m[t * columns + s] - p[t]);
        REQUIRE(q[s] == least);
      }
    }
}

TEST_CASE("prices of dropped memory points go to the nearest that are left") {
  // Point 7 is as far from 5 as from 9.
  const std::vector<double> prices = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
  CHECK(gatherPrices(prices, {2, 5, 9}) ==
        std::vector<double>{0, 0, 1 + 2 + 4 + 8, 0, 0, 16 + 32 + 64, 0, 0, 0, 128 + 256 + 512 + 1024 + 2048, 0, 0});
  CHECK(gatherPrices(prices, {11}) == std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4095});
  CHECK(gatherPrices(prices, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) == prices);
  CHECK(gatherPrices(prices, {}) == prices);
  CHECK(gatherPrices({}, {}).empty());
}

TEST_CASE("without memory no point in time is dropped, and looking for one ends") {
  StrategyGraph graph;
  graph.addNode({.name = "a", .costs = {1, 2}});
  Problem problem(graph);
  REQUIRE(problem.room.empty());
  int asked = 0; // a search that does not end is stopped
  dropDominatedMemoryPoints(problem, [&] { return ++asked > 3; });
  CHECK(asked <= 1);
}
