//===- PriceSweep.cpp - what the fast searchers share: prices until memory fits ------------------===//
#include "strategies/search/PriceSweep.h"

#include "strategies/search/reduce/Reduce.h"

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

namespace {
constexpr int kGrowing = 40, kRefining = 8; // prices tried
} // namespace

Solution tessera::strategies::priceSweep(const StrategyGraph &graph, const SearchOptions &options,
                                         const Decide &decide) {
  Incumbent best(graph, options);
  Scope scope(graph);
  reduce(scope.problem, [&] { return best.clock.expired(); });
  if (scope.problem.infeasible) {
    best.solution.infeasible = true;
    return best.solution;
  }
  const FlatProblem core(scope.problem);
  // What the reductions have settled is paid in any case, and the cheapest of each variable.
  double least = core.constant;
  for (int32_t v = 0; v < core.count(); ++v)
    least += *std::min_element(&core.costs[core.first[size_t(v)]], &core.costs[core.first[size_t(v)]] + core.size(v));
  best.raise(core.count() ? provenBound(least) : scope.problem.constant);
  std::vector<double> costs;
  auto fits = [&](double price) {
    costs = core.costs;
    for (int32_t v = 0; v < core.count() && price > 0; ++v)
      for (size_t k = core.firstPiece[size_t(v)]; k < core.firstPiece[size_t(v) + 1]; ++k) {
        const FlatPiece &piece = core.pieces[k];
        for (size_t s = 0; s < size_t(core.size(v)); ++s)
          costs[core.first[size_t(v)] + s] += price * double(piece.to - piece.from) * core.extras[piece.extra + s];
      }
    const Answer answer = decide(core, costs);
    if (core.excess(core.load(answer)) > 0)
      return false;
    best.offer(scope, core, answer);
    return true;
  };
  if (fits(0) || core.room.empty())
    return best.solution;
  double most = 1;
  for (double x : core.extras)
    most = std::max(most, x);
  double low = 0, high = 1e-3 / (most * double(core.room.size()));
  bool found = false;
  for (int k = 0; k < kGrowing && !(found = fits(high)) && !best.clock.expired(); ++k) {
    low = high;
    high *= 6;
  }
  for (int k = 0; k < kRefining && found && !best.clock.expired(); ++k) {
    const double middle = low > 0 ? std::sqrt(low * high) : high / 2;
    (fits(middle) ? high : low) = middle;
  }
  return best.solution;
}
