//===- BruteForceTest.cpp - the searchers agree with enumeration ------------------------------===//
#include "RandomGraph.h"

#include "strategies/search/Search.h"

#include <catch2/catch.hpp>

#include <map>

using namespace tessera::strategies;

namespace {

void compare(const RandomGraphOptions &shape, uint64_t seed, int count, bool mustProve) {
  std::mt19937_64 random(seed);
  int infeasible = 0, proven = 0;
  for (int i = 0; i < count; ++i) {
    StrategyGraph g = randomGraph(random, shape);
    const Cost least = bruteForce(g);
    SearchOptions options;
    options.seconds = 600; // the work is what ends it, also on a busy machine
    options.work = 5;
    Solution s = search(g, options);
    INFO("seed " << seed << ", graph " << i << ", " << g.nodes.size() << " nodes");
    if (least >= kForbidden) {
      ++infeasible;
      REQUIRE(s.choice.empty());
      if (mustProve)
        REQUIRE(s.infeasible);
      continue;
    }
    REQUIRE(!s.infeasible);
    REQUIRE(!s.choice.empty());
    Evaluation judged = evaluate(g, s.choice);
    REQUIRE(judged.feasible);
    REQUIRE(judged.cost == s.cost);
    REQUIRE(s.lowerBound <= least);
    REQUIRE(s.cost >= least);
    if (mustProve)
      REQUIRE(s.optimal);
    if (s.optimal) {
      ++proven;
      REQUIRE(s.cost == least);
    }
  }
  // The generator must make both kinds, or the test tells nothing.
  CHECK(proven > count / 10);
  if (shape.forbidden > 0.15 || shape.memory > 0)
    CHECK(infeasible > 0);
}

} // namespace

TEST_CASE("exact search equals enumeration without memory") {
  compare({.nodes = 7, .options = 4, .density = 0.5, .forbidden = 0.1}, 1, 1500, true);
  compare({.nodes = 7, .options = 3, .density = 0.9, .forbidden = 0.4}, 2, 1000, true);
}

TEST_CASE("exact search equals enumeration with aliases") {
  compare({.nodes = 7, .options = 3, .density = 0.4, .forbidden = 0.2, .aliases = true}, 3, 1000, true);
}

TEST_CASE("exact search equals enumeration under a memory limit") {
  compare({.nodes = 7, .options = 4, .density = 0.4, .forbidden = 0.05, .memory = 0.6}, 4, 600, true);
  compare({.nodes = 7, .options = 3, .density = 0.4, .forbidden = 0.1, .memory = 0.35}, 5, 600, true);
  compare({.nodes = 7, .options = 3, .density = 0.4, .forbidden = 0.1, .memory = 0.5, .aliases = true}, 6, 600, true);
}

TEST_CASE("the other searchers are valid, and their bounds are") {
  std::map<std::string, int> answered, best;
  std::mt19937_64 random(7);
  const RandomGraphOptions shape{
      .nodes = 7, .options = 4, .density = 0.4, .forbidden = 0.05, .memory = 0.7, .aliases = true};
  int feasible = 0;
  for (int i = 0; i < 600; ++i) {
    StrategyGraph g = randomGraph(random, shape);
    const Cost least = bruteForce(g);
    feasible += least < kForbidden;
    if (i % 2 == 0) // an answer as the data parallel choice, in the other half a file that names none
      g.dataParallel = search(g).choice;
    for (const std::string &name : searcherNames()) {
      SearchOptions options;
      options.searcher = name;
      options.seconds = name == "random" ? 0 : 600;
      options.work = 1;
      Solution s = search(g, options);
      INFO("graph " << i << ", " << name);
      if (s.infeasible)
        REQUIRE(least >= kForbidden);
      if (s.choice.empty())
        continue;
      Evaluation judged = evaluate(g, s.choice);
      REQUIRE(judged.feasible);
      REQUIRE(judged.cost == s.cost);
      REQUIRE(s.cost >= least);
      REQUIRE(s.lowerBound <= least);
      ++answered[name];
      best[name] += s.cost == least;
    }
  }
  for (const auto &[name, count] : answered) {
    INFO(name << ": " << count << " of " << feasible << ", " << best[name] << " best");
    CHECK(count > feasible / (name == "data" ? 3 : 2));
    CHECK(best[name] > count / 4);
  }
  CHECK(answered.size() == searcherNames().size());
}
