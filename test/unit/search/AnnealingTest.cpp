//===- AnnealingTest.cpp - smooth bounds against minima and enumeration -------------------------------===//
#include "RandomGraph.h"

#include "strategies/search/Searchers.h"
#include "strategies/search/bound/Annealing.h"
#include "strategies/search/bound/SoftMinimum.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace tessera::strategies;

TEST_CASE("powers and logarithms are those of the library") {
  for (double x = 0; x > -59; x -= 0.0371)
    REQUIRE(powerOfTwo(x) == Approx(std::exp2(x)).epsilon(1e-6));
  REQUIRE(powerOfTwo(0) == 1);
  for (double x : {-60.0, -61.0, -1e18})
    REQUIRE(powerOfTwo(x) == std::exp2(-60.0));
  for (double x = 1e-6; x < 1e9; x *= 1.0173)
    REQUIRE(logOfTwo(x) == Approx(std::log2(x)).margin(1e-6));
  REQUIRE(logOfTwo(1) == 0);
}

TEST_CASE("soft minima lie below minima by a few degrees") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const size_t rows = 1 + random() % 9, columns = 1 + random() % 20;
    std::vector<double> m(rows * columns), p(rows), hard(columns), soft(columns), scratch(columns);
    for (double &x : m)
      x = random() % 7 ? double(random() % 1000) : kFlatForbidden;
    for (double &x : p)
      x = double(random() % 100);
    minPlus(m.data(), p.data(), rows, columns, hard.data());
    for (double temperature : {1e-3, 1.0, 70.0}) {
      softMinPlus(m.data(), p.data(), rows, columns, temperature, soft.data(), scratch.data());
      for (size_t s = 0; s < columns; ++s) {
        double sum = 0;
        for (size_t t = 0; t < rows; ++t)
          sum += std::exp2((hard[s] - (m[t * columns + s] - p[t])) / temperature);
        REQUIRE(soft[s] == Approx(hard[s] - temperature * std::log2(sum)).margin(1e-5 * temperature));
        REQUIRE(soft[s] <= hard[s]);
        REQUIRE(soft[s] >= hard[s] - temperature * std::log2(double(rows)) - 1e-5 * temperature);
      }
    }
  }
}

TEST_CASE("bounds by annealing hold for every answer") {
  std::mt19937_64 random(12);
  int total = 0, stuck = 0, cold = 0;
  for (int round = 0; round < 300; ++round) {
    const StrategyGraph g =
        randomGraph(random, {.nodes = 8, .options = 4, .density = 0.6, .forbidden = 0.1, .memory = 0.6});
    const Problem problem(g);
    if (problem.room.empty() || *std::min_element(problem.room.begin(), problem.room.end()) < 0)
      continue;
    FlatProblem flat(problem);
    const auto [least, best] = leastCosts(flat);
    if (best >= kFlatForbidden)
      continue;
    ++total;
    Dual dual(flat);
    for (int pass = 0; pass < 600; ++pass) {
      dual.pass();
      dual.stepPrices(best);
    }
    const double before = dual.best();
    Annealing annealing;
    for (int k = 0; k < 150 && annealing.hot() && dual.best() < best - 1e-6; ++k) {
      annealing.round(dual, best);
      REQUIRE(dual.best() <= best + 1e-6);
      // What no better answer may choose is so under the bound that annealing leaves, too.
      const std::vector<double> reduced = dual.reducedCosts();
      for (size_t s = 0; s < reduced.size(); ++s)
        if (least[s] < kFlatForbidden)
          REQUIRE(dual.bound() + reduced[s] <= least[s] + 1e-6);
    }
    REQUIRE(dual.best() >= before);
    if (before < best - 1) {
      ++stuck;
      cold += !annealing.hot();
    }
    // It moves costs about, and the problem stays the same.
    Problem moved(problem);
    dual.moveInto(moved);
    const FlatProblem after(moved);
    for (int i = 0; i < 20; ++i) {
      Answer answer;
      for (int32_t v = 0; v < flat.count(); ++v)
        answer.push_back(int32_t(random() % uint64_t(flat.size(v))));
      if (flat.price(answer) < kFlatForbidden)
        REQUIRE(after.price(answer) == flat.price(answer));
    }
  }
  CHECK(total > 100);
  CHECK(stuck > total / 5);
  CHECK(cold > stuck * 3 / 4);
}

TEST_CASE("annealing raises bounds at which passes stop") {
  std::mt19937_64 random(18);
  int total = 0, risen = 0;
  for (int round = 0; round < 20; ++round) {
    StrategyGraph g; // a chain with some other edges, whose tensors live long
    for (int v = 0; v < 80; ++v) {
      StrategyNode node{.costs = {}, .liveFrom = v, .liveTo = v + 1 + int(random() % 40)};
      for (int s = 0; s < 6; ++s) {
        node.costs.push_back(Cost(random() % 1'000'000));
        node.usages.push_back(int64_t(random() % 1'000'000));
      }
      g.addNode(node);
      for (int u : {v - 1, v - 2 - int(random() % 6)})
        if (u >= 0) {
          std::vector<Cost> costs;
          for (int i = 0; i < 36; ++i)
            costs.push_back(Cost(random() % 1'000'000));
          g.addEdge(u, v, costs);
        }
    }
    g.memoryLimit = 9'000'000;
    SearchOptions options;
    options.work = 0.02;
    const Solution found = searchExact(g, options);
    if (found.choice.empty())
      continue;
    const Problem problem(g);
    const FlatProblem flat(problem);
    Dual dual(flat);
    for (int pass = 0; pass < 4000; ++pass) {
      dual.pass();
      dual.stepPrices(double(found.cost));
    }
    const double before = dual.best();
    Annealing annealing;
    while (annealing.hot())
      annealing.round(dual, double(found.cost));
    REQUIRE(dual.best() <= double(found.cost));
    ++total;
    risen += dual.best() > before + 0.005 * (double(found.cost) - before);
  }
  CHECK(total > 10);
  CHECK(risen > total * 3 / 4);
}

TEST_CASE("a course of annealing ends, and the next one begins less hot") {
  StrategyGraph g; // half of each of two tensors would fit
  for (int v = 0; v < 2; ++v)
    g.addNode({.costs = {0, 10}, .usages = {6, 0}, .liveFrom = 0, .liveTo = 1});
  g.memoryLimit = 9;
  const Problem problem(g);
  const FlatProblem flat(problem);
  Dual dual(flat);
  dual.pass();
  REQUIRE(dual.best() == Approx(0).margin(1e-9));
  Annealing annealing;
  REQUIRE_FALSE(annealing.begun());
  auto course = [&] {
    int rounds = 0;
    for (; annealing.hot() && rounds < 1000; ++rounds)
      annealing.round(dual, 10);
    return rounds;
  };
  CHECK(course() < 200);
  CHECK(annealing.begun());
  CHECK_FALSE(annealing.hot());
  CHECK(dual.best() == Approx(5).epsilon(0.01)); // 3 bytes of 12 too many, at 10 for 6
  annealing.reheat();
  CHECK(annealing.hot());
  CHECK(course() < 1000);
  CHECK(dual.best() <= 5 + 1e-6);
}
