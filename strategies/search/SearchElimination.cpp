//===- SearchElimination.cpp - reductions and exact elimination, nothing else -----------------===//
#include "strategies/search/Incumbent.h"
#include "strategies/search/Searchers.h"
#include "strategies/search/bound/ParetoElimination.h"
#include "strategies/search/reduce/Reduce.h"

using namespace tessera::strategies;

namespace {
// Tuning. They decide whether there is an answer. Half and twice are not measured: on V there is none.
constexpr int kPasses = 200;            // of the bound, for memory prices to begin with
constexpr double kMostWork = 5e9;       // steps of an elimination with memory
constexpr double kMostTable = 1 << 26;  // entries of one table of an elimination without memory
constexpr double kMostTables = 1 << 28; // entries of all
} // namespace

Solution tessera::strategies::searchElimination(const StrategyGraph &graph, const SearchOptions &options) {
  Solution solution;
  Problem problem(graph);
  const Clock clock(options);
  auto stop = [&] { return clock.expired(); };
  reduce(problem, stop);
  if (problem.infeasible) {
    solution.infeasible = true;
    return solution;
  }
  FlatProblem flat(problem);
  Answer answer;
  double least, work = 0;
  if (flat.hasMemory()) {
    Dual dual(flat); // for prices to begin with
    for (int pass = 0; pass < kPasses && !stop(); ++pass) {
      dual.pass();
      dual.stepPrices(kFlatForbidden);
    }
    dual.restoreBest();
    dual.pass();
    const double most = options.work > 0 ? std::min(1e9 * options.work, kMostWork) : kMostWork;
    auto result = ParetoElimination(flat, dual, kFlatForbidden, stop).run(most, work, answer);
    if (result == ParetoElimination::TooLarge)
      return solution;
    solution.infeasible = result == ParetoElimination::Nothing;
    least = solution.infeasible ? kFlatForbidden : flat.price(answer);
  } else if (stop() || !eliminateFlat(flat, kMostTable, kMostTables, answer, least, work)) {
    return solution;
  }
  if (least >= kFlatForbidden) {
    solution.infeasible = true;
    return solution;
  }
  solution.choice = problem.expand(flat.ids(problem, answer));
  solution.lowerBound = provenBound(least);
  return solution;
}
