//===- SearchExact.cpp - reductions, elimination, bounds and neighbourhoods ----------------------===//
//
// Rounds of: reduce exactly; finish by elimination if memory cannot bind and the width allows; otherwise
// raise the bound, improve the answer, and drop every option whose reduced cost shows that it cannot occur
// in a better answer. What is dropped lets the reductions take more out, until nothing is left (proven) or
// the budget ends. Between them, branch and bound below trial cutoffs just above the bound, and neighbourhood
// search on the options that the bound likes best.
//
// All phases are scheduled by counted work, not by the clock, so that the course is reproducible.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/Branch.h"
#include "strategies/search/Fold.h"
#include "strategies/search/Neighbourhood.h"
#include "strategies/search/Reduce.h"
#include "strategies/search/Searchers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace tessera::strategies;

namespace {

class ExactSearch {
public:
  ExactSearch(const StrategyGraph &graph, const SearchOptions &options)
      : best(graph, options), options(options) {}

  Solution run();

private:
  bool round(Scope &scope);
  void startFolded(const Model &model);
  void raiseBound(const Model &model, const Core &core, Dual &dual, double share);
  void improve(const Scope &scope, const Core &core, std::vector<Neighbourhood> &searches,
               double share);
  bool tryCutoff(const Scope &scope, const Core &core, const Dual &dual, double share);
  void focus(const Scope &scope, const Core &core, const Dual &dual, double share);
  std::vector<Neighbourhood> searchesFrom(const Core &core, const Answer &start);
  void conclude() { // the present model holds nothing better
    if (best.found())
      best.raise(best.solution.cost);
    else
      best.solution.infeasible = true;
  }
  double target() const {
    return best.found() ? double(best.solution.cost) : std::numeric_limits<double>::max();
  }
  template <typename... Args> void log(const char *format, Args... args) const {
    if (!verbose)
      return;
    fprintf(stderr, "%8.2f %8.2f  ", best.clock.seconds(), best.work * 1e-9);
    fprintf(stderr, format, args...);
    fputc('\n', stderr);
  }

  Incumbent best;
  const SearchOptions &options;
  const bool verbose = getenv("TESSERA_SEARCH_LOG") != nullptr;
  std::vector<double> prices; // by Model::points
  double trial = 0.01;        // distance of the next cutoff from the bound, relative
  double narrowness = 0.5;    // of the next focus
  double lastRise = 0;        // of the bound in the last phase
  uint64_t streams = 0;       // random streams handed out
  bool triedFold = false;
};

void ExactSearch::raiseBound(const Model &model, const Core &core, Dual &dual, double share) {
  const double end = best.work + share, before = dual.best();
  int passes = 0;
  // Steps that shortened in the last phase may have done so too early.
  dual.stepFactor = std::max(dual.stepFactor, 0.05);
  while (!best.done() && (passes < 40 || best.work < end) && dual.stalledPasses() < 400) {
    dual.pass();
    ++passes;
    best.work += dual.passWork();
    if (!core.room.empty() && passes > 10)
      dual.stepPrices(target());
  }
  dual.restoreBest();
  dual.pass();
  dual.pass();
  lastRise = dual.best() - before;
  best.raise(provenBound(dual.best()));
  for (size_t p = 0; p < model.points.size(); ++p)
    prices[model.points[p]] = dual.prices()[p];
  log("%d passes: bound %.0f, step %.2g", passes, dual.best(), dual.stepFactor);
}

std::vector<Neighbourhood> ExactSearch::searchesFrom(const Core &core, const Answer &start) {
  std::vector<Neighbourhood> searches;
  for (int t = 0; t < options.threads; ++t)
    searches.emplace_back(core, start, std::vector<double>(core.room.size(), 0),
                          options.seed * 1000003 + streams++);
  return searches;
}

/// Lets every search run for the same work, one thread each, and then all continue from the best.
void ExactSearch::improve(const Scope &scope, const Core &core,
                          std::vector<Neighbourhood> &searches, double share) {
  std::vector<int64_t> steps(searches.size(), 0), better(searches.size(), 0);
  auto work = [&](size_t t) {
    for (double spent = 0; spent < share && !best.clock.expired(); ++steps[t]) {
      searches[t].setGuidance(searches[t].fits() && spent < 0.3 * share ? 1 : 0);
      better[t] += searches[t].step(spent);
    }
    if (searches[t].fits())
      searches[t].returnToBest(0.002);
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < searches.size(); ++t)
    threads.emplace_back(work, t);
  work(0);
  for (std::thread &thread : threads)
    thread.join();
  best.work += share;
  size_t winner = 0;
  for (size_t t = 1; t < searches.size(); ++t) {
    Neighbourhood &a = searches[winner], &b = searches[t];
    if (b.fits() ? !a.fits() || b.bestCost() < a.bestCost()
                 : !a.fits() && b.currentExcess() < a.currentExcess())
      winner = t;
  }
  Neighbourhood &a = searches[winner];
  if (a.fits() && a.bestCost() < target())
    best.offer(scope, core, a.best());
  for (size_t t = 0; t < searches.size(); ++t)
    if (t != winner && a.fits() && searches[t].bestCost() > a.bestCost())
      searches[t].restart(a.best());
  log("%ld neighbourhoods of %d variables, %ld better: best %ld, excess %.0f", long(steps[0]),
      core.count(), long(better[0]), long(best.solution.cost), a.currentExcess());
}

/// Branch and bound below a trial cutoff. True if it proved that nothing is left.
bool ExactSearch::tryCutoff(const Scope &scope, const Core &core, const Dual &dual, double share) {
  const double bound = double(best.solution.lowerBound);
  double aim = std::min(bound + std::max(1.0, trial * std::abs(bound)), double(kForbidden));
  Cost cutoff = Cost(aim);
  const bool whole = best.found() && cutoff >= best.solution.cost;
  if (whole)
    cutoff = best.solution.cost;
  Model restricted(scope.model);
  dual.moveInto(restricted);
  fixOptions(restricted, core, dual, double(cutoff));
  Scope child(scope, restricted);
  Branch branch(best, cutoff, prices);
  bool complete = branch.run(child, share);
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
  trial *= 3;
  return whole || (!best.found() && aim >= double(kForbidden));
}

/// Neighbourhood search among the options of small reduced cost, and those of the best answer.
void ExactSearch::focus(const Scope &scope, const Core &core, const Dual &dual, double share) {
  Model restricted(scope.model);
  std::vector<double> reduced = dual.reducedCosts();
  Answer now = scope.project(core, best.solution.choice);
  const double most = narrowness * (target() - dual.bound());
  std::vector<char> keep;
  for (int32_t v = 0; v < core.count(); ++v) {
    keep.assign(size_t(core.size(v)), 0);
    for (size_t s = 0; s < keep.size(); ++s)
      keep[s] = reduced[core.first[v] + s] <= most;
    keep[size_t(now[v])] = 1;
    restricted.keepOptions(core.variables[v], keep);
  }
  Scope child(scope, restricted);
  reduce(child.model, [&] { return best.clock.expired(); });
  if (child.model.infeasible)
    return;
  Core small(child.model);
  best.work += 20 * double(core.matrices.size());
  const Cost before = best.solution.cost;
  std::vector<Neighbourhood> searches =
      searchesFrom(small, child.project(small, best.solution.choice));
  std::vector<double> local;
  for (int32_t point : child.model.points)
    local.push_back(prices[point]);
  for (Neighbourhood &search : searches)
    search.setPrices(local);
  log("focus %.3g: %d variables, %zu options, %zu check points", narrowness, small.count(),
      small.costs.size(), small.room.size());
  improve(child, small, searches, share);
  if (best.solution.cost == before)
    narrowness = narrowness < 0.01 ? 0.7 : narrowness * 0.6;
}

/// A first answer in which equal layers choose alike: where a network repeats itself it is near the best, and
/// what it costs to find does not grow with the number of layers.
void ExactSearch::startFolded(const Model &model) {
  Fold fold(best.graph, model.variableOf);
  best.work += 100 * double(best.graph.nodes.size());
  for (const StrategyEdge &edge : best.graph.edges)
    best.work += 4 * double(edge.costs.size());
  if (size_t(fold.groups) * 10 > model.variables.size())
    return; // not much that repeats itself
  SearchOptions own = options;
  own.work = options.work > 0 ? std::min(1.0, 0.3 * (options.work - 1e-9 * best.work)) : 1;
  own.seconds = best.clock.left();
  if (own.work <= 0)
    return;
  Solution folded = searchExact(fold.graph, own);
  best.work += 1e9 * folded.work;
  if (!folded.choice.empty())
    best.offer(fold.unfold(folded.choice));
  log("folded %zu variables to %d: best %ld", model.variables.size(), fold.groups,
      long(best.solution.cost));
}

/// One round on the present model; false when there is nothing more to do.
bool ExactSearch::round(Scope &scope) {
  Model &model = scope.model;
  reduce(model, [&] { return best.clock.expired(); });
  if (model.infeasible)
    return conclude(), false;
  Core core(model);
  best.work += 20 * double(core.matrices.size() + core.extras.size());
  Answer answer;
  double least;
  if (eliminateCore(core, 1 << 25, 1 << 27, answer, least, best.work)) {
    best.offer(scope, core, answer);
    return conclude(), false;
  }
  log("%d variables, %zu options, %zu check points, best %ld, bound %ld", core.count(),
      core.costs.size(), core.room.size(), long(best.solution.cost),
      long(best.solution.lowerBound));
  Dual dual(core);
  std::vector<double> local;
  for (int32_t point : model.points)
    local.push_back(prices[point]);
  dual.setPrices(local);
  std::vector<Neighbourhood> searches =
      searchesFrom(core, scope.project(core, best.solution.choice));
  // Short shares first: small problems end in milliseconds.
  double share = 5e6;
  for (int phase = 0; !best.done(); ++phase) {
    if (phase == 1 && !triedFold) { // not one of those that end at once
      triedFold = true;
      startFolded(model);
    }
    raiseBound(model, core, dual, share);
    if (best.done())
      break;
    // Good prices are what the search lives on: while they still change much, it gets little.
    const bool rising = lastRise > 0.003 * std::abs(dual.best());
    if (rising && phase % 4 != 0)
      continue;
    for (Neighbourhood &search : searches)
      search.setPrices(dual.prices());
    // The bound's own answer, mended, is a fresh start near the best of the relaxation.
    if (phase % 2 == 0) {
      std::vector<Neighbourhood> fresh = searchesFrom(core, dual.answer());
      for (Neighbourhood &search : fresh) {
        search.setPrices(dual.prices());
        search.restart(dual.answer());
      }
      improve(scope, core, fresh, share);
      if (fresh[0].fits() && !(searches[0].bestCost() <= fresh[0].bestCost()))
        searches = std::move(fresh);
    }
    improve(scope, core, searches, share);
    if (best.done())
      break;
    // While the bound rises by itself, branching is too early.
    // On small cores it is what still moves, once bound and neighbourhoods stand still.
    const double branchShare = core.costs.size() < 20000 ? 4 * share : share;
    if (lastRise < trial * std::abs(dual.best()) && tryCutoff(scope, core, dual, branchShare))
      return conclude(), false;
    if (best.done())
      break;
    if (best.found()) {
      Model smaller(model);
      dual.moveInto(smaller);
      size_t dropped = fixOptions(smaller, core, dual, target());
      if (smaller.infeasible)
        return conclude(), false;
      if (dropped * 20 >= core.costs.size()) {
        model = std::move(smaller);
        return true;
      }
      if (core.costs.size() > 1000 && share > 1e8 && !rising)
        focus(scope, core, dual, 2 * share);
    }
    if (target() < searches[0].bestCost())
      for (Neighbourhood &search : searches)
        search.restart(scope.project(core, best.solution.choice));
    share = std::min(share * 1.4, 3e9);
  }
  return false;
}

Solution ExactSearch::run() {
  Scope scope(best.graph);
  prices.assign(scope.model.room.size(), 0);
  while (round(scope) && !best.done())
    ;
  best.solution.work = 1e-9 * best.work;
  return best.solution;
}

} // namespace

Solution tessera::strategies::searchExact(const StrategyGraph &graph,
                                          const SearchOptions &options) {
  return ExactSearch(graph, options).run();
}
