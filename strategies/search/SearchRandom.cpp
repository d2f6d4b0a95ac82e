//===- SearchRandom.cpp - the baseline --------------------------------------------------------===//
#include "strategies/search/Evaluate.h"
#include "strategies/search/Searchers.h"
#include "strategies/search/problem/Problem.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace tessera::strategies;

namespace {
constexpr int kRounds = 1000; // with every budget: a baseline that is not tuned
} // namespace

Solution tessera::strategies::searchRandom(const StrategyGraph &graph, const SearchOptions &options) {
  Clock clock(options);
  Solution solution;
  Problem problem(graph);
  std::mt19937_64 random(options.seed);
  const size_t n = problem.variables.size();
  std::vector<int32_t> order(n), ids(n);
  std::iota(order.begin(), order.end(), 0);
  std::vector<char> chosen(n);
  // Even rounds take the cheapest option, and odd ones the option of least memory that is not forbidden. The clock ends
  // neither the first nor the second round.
  for (int round = 0; round < kRounds && (round < 2 || !clock.expired()); ++round) {
    std::shuffle(order.begin(), order.end(), random);
    std::fill(chosen.begin(), chosen.end(), 0);
    for (int32_t v : order) {
      const Variable &x = problem.variables[v];
      std::pair<double, double> best{std::numeric_limits<double>::max(), 0};
      for (size_t s = 0; s < x.size(); ++s) {
        Cost cost = x.costs[s];
        for (int32_t e : x.edges) {
          EdgeView view = problem.view(e, v);
          if (chosen[view.other])
            cost = addCosts(cost, view(s, size_t(ids[view.other])));
        }
        double memory = 0;
        for (const Piece &piece : x.pieces)
          memory += double(piece.extra[s]);
        if (round % 2 && cost < kForbidden)
          cost = 0;
        std::pair<double, double> score{double(cost), memory};
        if (score < best) {
          best = score;
          ids[v] = int32_t(s);
        }
      }
      chosen[v] = 1;
    }
    Choice choice = problem.expand(ids);
    Evaluation judged = evaluate(graph, choice);
    if (judged.feasible && judged.cost < solution.cost) {
      solution.cost = judged.cost;
      solution.choice = choice;
    }
  }
  return solution;
}
