//===- PriceSweep.cpp - what the fast searchers share: prices until memory fits ------------------===//
#include "strategies/search/PriceSweep.h"

#include "strategies/search/reduce/Reduce.h"

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr double kFirstPrice = 1e-3; // cost of the largest use of memory, at all points together; same
constexpr double kPriceGrowth = 6;   // factor until an answer fits; same
constexpr int kGrowing = 40;         // prices tried while they grow; same
constexpr int kRefining = 8;         // prices tried between the last two; same
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
  const FlatProblem flat(scope.problem);
  // The constant part of the cost, and each variable's cheapest option, are paid in any case.
  double least = flat.constant;
  for (int32_t v = 0; v < flat.count(); ++v)
    least += *std::min_element(&flat.costs[flat.first[size_t(v)]], &flat.costs[flat.first[size_t(v)]] + flat.size(v));
  best.raise(flat.count() ? provenBound(least) : scope.problem.constant);
  std::vector<double> costs;
  auto fits = [&](double price) {
    costs = flat.costs;
    for (int32_t v = 0; v < flat.count() && price > 0; ++v)
      for (size_t k = flat.firstPiece[size_t(v)]; k < flat.firstPiece[size_t(v) + 1]; ++k) {
        const FlatPiece &piece = flat.pieces[k];
        for (size_t s = 0; s < size_t(flat.size(v)); ++s)
          costs[flat.first[size_t(v)] + s] += price * double(piece.to - piece.from) * flat.extras[piece.extra + s];
      }
    const Answer answer = decide(flat, costs);
    if (flat.excess(flat.load(answer)) > 0)
      return false;
    best.offer(scope, flat, answer);
    return true;
  };
  if (fits(0) || flat.room.empty())
    return best.solution;
  double most = 1;
  for (double x : flat.extras)
    most = std::max(most, x);
  double low = 0, high = kFirstPrice / (most * double(flat.room.size()));
  bool found = false;
  for (int k = 0; k < kGrowing && !(found = fits(high)) && !best.clock.expired(); ++k) {
    low = high;
    high *= kPriceGrowth;
  }
  for (int k = 0; k < kRefining && found && !best.clock.expired(); ++k) {
    const double middle = low > 0 ? std::sqrt(low * high) : high / 2;
    (fits(middle) ? high : low) = middle;
  }
  return best.solution;
}
