//===- SearchExact.cpp - reductions, elimination, bounds and neighbourhoods
//----------------------===//
//
// Rounds of: reduce exactly; finish by elimination if memory cannot bind and the width allows;
// otherwise raise the bound, improve the answer, and drop every option whose reduced cost shows
// that it cannot occur in a better answer. What is dropped lets the reductions take more out, until
// nothing is left (proven) or the budget ends. Between them, branch and bound below trial cutoffs
// just above the bound.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/Branch.h"
#include "strategies/search/Neighbourhood.h"
#include "strategies/search/Reduce.h"
#include "strategies/search/Searchers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace tessera::strategies;

namespace {

class ExactSearch {
public:
  ExactSearch(const StrategyGraph &graph, const SearchOptions &options)
      : best(graph, options), options(options) {}

  Solution run();

private:
  bool round(Scope &scope);
  bool tryCutoff(const Scope &scope, const Core &core, const Dual &dual, double seconds);
  void conclude() { // the present model holds nothing better
    if (best.found())
      best.raise(best.solution.cost);
    else
      best.solution.infeasible = true;
  }
  template <typename... Args> void log(const char *format, Args... args) const {
    if (!verbose)
      return;
    fprintf(stderr, "%8.2f  ", best.clock.seconds());
    fprintf(stderr, format, args...);
    fputc('\n', stderr);
  }

  Incumbent best;
  const SearchOptions &options;
  const bool verbose = getenv("TESSERA_SEARCH_LOG") != nullptr;
  std::vector<double> prices; // by Model::points
  double trial = 0.01;        // distance of the next cutoff from the bound, relative
  int rounds = 0;
};

/// Branch and bound below a trial cutoff. True if it proved that nothing is left.
bool ExactSearch::tryCutoff(const Scope &scope, const Core &core, const Dual &dual,
                            double seconds) {
  const double bound = double(best.solution.lowerBound);
  double aim = std::min(bound + std::max(1.0, trial * std::abs(bound)), double(kForbidden));
  Cost cutoff = Cost(aim);
  const bool whole = best.found() && cutoff >= best.solution.cost;
  if (whole)
    cutoff = best.solution.cost;
  Model restricted(scope.model);
  fixOptions(restricted, core, dual, double(cutoff));
  Scope child(scope, restricted);
  Branch branch(best, cutoff, prices);
  bool complete = branch.run(child, seconds);
  log("cutoff %ld: %s after %ld nodes, best %ld", long(cutoff),
      branch.found() ? "found"
      : complete     ? "excluded"
                     : "open",
      long(branch.nodes()), long(best.solution.cost));
  if (!complete) {
    if (!branch.found())
      trial *= 0.5;
    return false;
  }
  if (branch.found())
    return true;
  best.raise(cutoff);
  trial *= 2;
  return whole || (!best.found() && aim >= double(kForbidden));
}

/// One round on the present model; false when there is nothing more to do.
bool ExactSearch::round(Scope &scope) {
  ++rounds;
  Model &model = scope.model;
  reduce(model, [&] { return best.clock.expired(); });
  if (model.infeasible)
    return conclude(), false;
  Core core(model);
  Answer answer;
  double least;
  if (eliminateCore(core, 1 << 25, 1 << 27, answer, least)) {
    best.offer(scope, core, answer);
    return conclude(), false;
  }
  log("round %d: %d variables, %zu options, %zu check points, best %ld, bound %ld", rounds,
      core.count(), core.costs.size(), core.room.size(), long(best.solution.cost),
      long(best.solution.lowerBound));
  Dual dual(core);
  std::vector<double> local;
  for (int32_t point : model.points)
    local.push_back(prices[point]);
  dual.setPrices(local);
  auto target = [&] {
    return best.found() ? double(best.solution.cost) : std::numeric_limits<double>::max();
  };
  Neighbourhood search(core, scope.project(core, best.solution.choice), dual.prices(),
                       options.seed + uint64_t(rounds));
  // Short shares first: small problems end in milliseconds.
  double share = 0.005;
  for (int phase = 0; !best.done(); ++phase) {
    double start = best.clock.seconds();
    int passes = 0;
    while (!best.done() && (passes < 40 || best.clock.seconds() - start < share)) {
      dual.pass();
      dual.pass();
      passes += 2;
      if (!core.room.empty() && (phase > 0 || passes > 10))
        dual.stepPrices(target());
      if (dual.stalledPasses() > 400)
        break;
    }
    dual.restoreBest();
    dual.pass();
    dual.pass();
    best.raise(provenBound(dual.best()));
    log("%d passes: bound %.0f, step %.2g, best %ld", passes, dual.best(), dual.stepFactor,
        long(best.solution.cost));
    for (size_t p = 0; p < model.points.size(); ++p)
      prices[model.points[p]] = dual.prices()[p];
    if (best.done())
      break;

    search.setPrices(dual.prices());
    // The bound's answer is often closer to fitting than what the search has.
    if (!search.fits() && phase % 4 == 0)
      search.restart(dual.answer());
    start = best.clock.seconds();
    int64_t steps = 0, better = 0;
    while (!best.done() && best.clock.seconds() - start < 2 * share) {
      better += search.step();
      ++steps;
    }
    if (search.fits() && search.bestCost() < double(best.solution.cost))
      best.offer(scope, core, search.best());
    log("%ld neighbourhoods, %ld better: best %ld, excess %.0f", long(steps), long(better),
        long(best.solution.cost), search.currentExcess());
    if (best.done())
      break;

    if (tryCutoff(scope, core, dual, share)) {
      conclude();
      return false;
    }
    if (best.solution.cost < search.bestCost())
      search.restart(scope.project(core, best.solution.choice));
    if (best.found()) {
      Model smaller(model);
      size_t dropped = fixOptions(smaller, core, dual, target());
      if (smaller.infeasible)
        return conclude(), false;
      if (dropped * 20 >= core.costs.size()) {
        model = std::move(smaller);
        return true;
      }
    }
    share = std::min(share * 1.4, 3.0);
  }
  return false;
}

Solution ExactSearch::run() {
  Scope scope(best.graph);
  prices.assign(scope.model.room.size(), 0);
  while (round(scope) && !best.done())
    ;
  return best.solution;
}

} // namespace

Solution tessera::strategies::searchExact(const StrategyGraph &graph,
                                          const SearchOptions &options) {
  return ExactSearch(graph, options).run();
}
