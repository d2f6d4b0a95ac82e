//===- SearchExact.cpp - reductions, elimination, bounds and neighbourhoods ----------------------===//
//
// Rounds of: reduce exactly; finish by elimination if memory cannot bind and the width allows; otherwise
// raise the bound, improve the answer, and drop every option whose reduced cost shows that it cannot occur
// in a better answer. What is dropped lets the reductions take more out, until nothing is left (proven) or
// the budget ends. Between them, branch and bound below trial cutoffs just above the bound, and neighbourhood
// search on the options that the bound likes best.
//
// With more than one thread the bounds have one, and neighbourhoods run beside them; on small flat problems, once there
// is an answer, one thread grows a tree of the whole. They meet at the ends of phases only. All phases are scheduled by
// counted work, not by the clock, so that the course is reproducible.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/Branch.h"
#include "strategies/search/Searchers.h"
#include "strategies/search/local/Neighbourhood.h"
#include "strategies/search/reduce/LayerFolding.h"
#include "strategies/search/reduce/Reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>

using namespace tessera::strategies;

namespace {

constexpr size_t kTreeOptions = 20000; // of a flat problem that is worth a tree
constexpr double kTreeShare = 2e7;     // when it is begun

class ExactSearch {
public:
  ExactSearch(const StrategyGraph &graph, const SearchOptions &options) : best_(graph, options), options_(options) {}

  Solution run();

private:
  bool round(Scope &scope);
  enum class Next { Phase, Round, Proven };
  Next phase(Scope &scope, const FlatProblem &flat, Dual &dual, std::vector<Neighbourhood> &searches, int number,
             double &share);
  void startTree(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share);
  bool finishTree(double share);
  void startFolded(const Problem &problem);
  void raiseBound(const Problem &problem, const FlatProblem &flat, Dual &dual, double share);
  int64_t search(Neighbourhood &search, double share) const;
  void improve(const Scope &scope, const FlatProblem &flat, std::vector<Neighbourhood> &searches, double share);
  std::unique_ptr<Scope> restrict(const Scope &scope, const FlatProblem &flat, const Dual &dual, double cutoff) const;
  bool tryCutoff(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share);
  void focus(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share);
  std::vector<Neighbourhood> searchesFrom(const FlatProblem &flat, const Answer &start);
  /// Threads for neighbourhoods.
  size_t primal() const { return size_t(std::max(1, options_.threads - (tree_ ? 1 : 0))); }
  /// Runs `bounds` and beside it all searches but the first.
  template <typename F> void beside(std::vector<Neighbourhood> &searches, double share, F bounds) {
    std::vector<std::thread> threads;
    for (size_t t = 1; t < std::min(primal(), searches.size()); ++t)
      threads.emplace_back([&, t] { search(searches[t], share); });
    bounds();
    for (std::thread &thread : threads)
      thread.join();
  }
  void conclude() { // the present problem holds nothing better
    if (best_.found())
      best_.raise(best_.solution.cost);
    else
      best_.solution.infeasible = true;
  }
  double target() const { return best_.found() ? double(best_.solution.cost) : std::numeric_limits<double>::max(); }
  template <typename... Args> void log(const char *format, Args... args) const {
    if (!options_.log)
      return;
    fprintf(stderr, "%8.2f %8.2f  ", best_.clock.seconds(), best_.work * 1e-9);
    fprintf(stderr, format, args...);
    fputc('\n', stderr);
  }

  Incumbent best_;
  const SearchOptions &options_;
  // The tree of the present round, on a small flat problem: kept from phase to phase, with an incumbent of its own,
  // since it runs beside everything else.
  std::optional<Incumbent> treeBest_;
  std::unique_ptr<Branch> tree_;
  std::thread treeThread_; // joined before a phase ends, so that the course does not depend on the clock
  bool treeDone_ = false;
  Cost treeFrom_ = 0;          // the best answer when it was begun
  std::vector<double> prices_; // by Problem::points
  double trial_ = 0.01;        // distance of the next cutoff from the bound, relative
  double narrowness_ = 0.5;    // of the next focus
  double lastRise_ = 0;        // of the bound in the last phase
  uint64_t streams_ = 0;       // random streams handed out
  bool triedFold_ = false;
};

void ExactSearch::raiseBound(const Problem &problem, const FlatProblem &flat, Dual &dual, double share) {
  const double end = best_.work + share, before = dual.best();
  int passes = 0;
  // Steps that shortened in the last phase may have done so too early.
  dual.stepFactor = std::max(dual.stepFactor, 0.05);
  while (!best_.done() && (passes < 40 || best_.work < end) && dual.stalledPasses() < 400) {
    dual.pass();
    ++passes;
    best_.work += dual.passWork();
    if (!flat.room.empty() && passes > 10)
      dual.stepPrices(target());
  }
  dual.restoreBest();
  dual.pass();
  dual.pass();
  lastRise_ = dual.best() - before;
  best_.raise(provenBound(dual.best()));
  for (size_t p = 0; p < problem.points.size(); ++p)
    prices_[problem.points[p]] = dual.prices()[p];
  log("%d passes: bound %.0f, step %.2g", passes, dual.best(), dual.stepFactor);
}

std::vector<Neighbourhood> ExactSearch::searchesFrom(const FlatProblem &flat, const Answer &start) {
  std::vector<Neighbourhood> searches;
  for (size_t t = 0; t < primal(); ++t)
    searches.emplace_back(flat, start, std::vector<double>(flat.room.size(), 0), options_.seed * 1000003 + streams_++);
  return searches;
}

/// Returns the number of neighbourhoods. Touches nothing else: it may run beside the bounds.
int64_t ExactSearch::search(Neighbourhood &search, double share) const {
  int64_t steps = 0;
  for (double spent = 0; spent < share && !best_.clock.expired(); ++steps) {
    search.setGuidance(search.fits() && spent < 0.3 * share ? 1 : 0);
    search.step(spent);
  }
  if (search.fits())
    search.returnToBest(0.002);
  return steps;
}

/// Lets every search run for the same work, one thread each, and then all continue from the best.
void ExactSearch::improve(const Scope &scope, const FlatProblem &flat, std::vector<Neighbourhood> &searches,
                          double share) {
  int64_t steps = 0;
  std::vector<std::thread> threads;
  for (size_t t = 1; t < std::min(primal(), searches.size()); ++t)
    threads.emplace_back([&, t] { search(searches[t], share); });
  steps = search(searches[0], share);
  for (std::thread &thread : threads)
    thread.join();
  best_.work += share;
  size_t winner = 0;
  for (size_t t = 1; t < searches.size(); ++t) {
    Neighbourhood &a = searches[winner], &b = searches[t];
    if (b.fits() ? !a.fits() || b.bestCost() < a.bestCost() : !a.fits() && b.currentExcess() < a.currentExcess())
      winner = t;
  }
  Neighbourhood &a = searches[winner];
  for (size_t t = 0; t < searches.size(); ++t)
    if (t != winner && searches[t].fits() && a.merge(searches[t].best(), best_.work))
      log("merged: %.0f", a.bestCost());
  if (a.fits() && a.bestCost() < target())
    best_.offer(scope, flat, a.best());
  for (size_t t = 0; t < searches.size(); ++t)
    if (t != winner && a.fits() && searches[t].bestCost() > a.bestCost())
      searches[t].restart(a.best());
  log("%ld neighbourhoods of %d variables: best %ld, excess %.0f", long(steps), flat.count(), long(best_.solution.cost),
      a.currentExcess());
}

/// What may hold answers below the cutoff.
std::unique_ptr<Scope> ExactSearch::restrict(const Scope &scope, const FlatProblem &flat, const Dual &dual,
                                             double cutoff) const {
  Problem restricted(scope.problem);
  dual.moveInto(restricted);
  fixOptions(restricted, flat, dual, cutoff);
  return std::make_unique<Scope>(scope, restricted);
}

/// Branch and bound below a trial cutoff. True if it proved that nothing is left.
bool ExactSearch::tryCutoff(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share) {
  const double bound = double(best_.solution.lowerBound);
  double aim = std::min(bound + std::max(1.0, trial_ * std::abs(bound)), double(kForbidden));
  Cost cutoff = Cost(aim);
  const bool whole = best_.found() && cutoff >= best_.solution.cost;
  if (whole)
    cutoff = best_.solution.cost;
  Branch branch(best_, restrict(scope, flat, dual, double(cutoff)), cutoff, prices_);
  bool complete = branch.run(share);
  log("cutoff %ld: %s after %ld nodes, best %ld", long(cutoff),
      branch.found() ? "found"
      : complete     ? "excluded"
                     : "open",
      long(branch.nodes()), long(best_.solution.cost));
  if (!complete) {
    if (!branch.found())
      trial_ *= 0.5;
    return false;
  }
  if (branch.found())
    return true;
  best_.raise(cutoff);
  trial_ *= 3;
  return whole || (!best_.found() && aim >= double(kForbidden));
}

/// Neighbourhood search among the options of small reduced cost, and those of the best answer.
void ExactSearch::focus(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share) {
  Problem restricted(scope.problem);
  std::vector<double> reduced = dual.reducedCosts();
  Answer now = scope.project(flat, best_.solution.choice);
  const double most = narrowness_ * (target() - dual.bound());
  std::vector<char> keep;
  for (int32_t v = 0; v < flat.count(); ++v) {
    keep.assign(size_t(flat.size(v)), 0);
    for (size_t s = 0; s < keep.size(); ++s)
      keep[s] = reduced[flat.first[v] + s] <= most;
    keep[size_t(now[v])] = 1;
    restricted.keepOptions(flat.variables[v], keep);
  }
  Scope child(scope, restricted);
  reduce(child.problem, [&] { return best_.clock.expired(); });
  if (child.problem.infeasible)
    return;
  FlatProblem small(child.problem);
  best_.work += 20 * double(flat.matrices.size());
  const Cost before = best_.solution.cost;
  std::vector<Neighbourhood> searches = searchesFrom(small, child.project(small, best_.solution.choice));
  std::vector<double> local;
  for (int32_t point : child.problem.points)
    local.push_back(prices_[point]);
  for (Neighbourhood &search : searches)
    search.setPrices(local);
  log("focus %.3g: %d variables, %zu options, %zu memory points", narrowness_, small.count(), small.costs.size(),
      small.room.size());
  improve(child, small, searches, share);
  if (best_.solution.cost == before)
    narrowness_ = narrowness_ < 0.01 ? 0.7 : narrowness_ * 0.6;
}

/// A first answer in which equal layers choose alike: where a network repeats itself it is near the best, and
/// what it costs to find does not grow with the number of layers.
void ExactSearch::startFolded(const Problem &problem) {
  LayerFolding fold(best_.graph, problem.variableOf);
  best_.work += 100 * double(best_.graph.nodes.size());
  for (const StrategyEdge &edge : best_.graph.edges)
    best_.work += 4 * double(edge.costs.size());
  if (size_t(fold.groups) * 10 > problem.variables.size())
    return; // not much that repeats itself
  SearchOptions own = options_;
  own.work = options_.work > 0 ? std::min(1.0, 0.3 * (options_.work - 1e-9 * best_.work)) : 1;
  own.seconds = best_.clock.left();
  if (own.work <= 0)
    return;
  Solution folded = searchExact(fold.graph, own);
  best_.work += 1e9 * folded.work;
  if (!folded.choice.empty())
    best_.offer(fold.unfold(folded.choice));
  log("folded %zu variables to %d: best %ld", problem.variables.size(), fold.groups, long(best_.solution.cost));
}

/// One round on the present problem; false when there is nothing more to do.
bool ExactSearch::round(Scope &scope) {
  Problem &problem = scope.problem;
  reduce(problem, [&] { return best_.clock.expired(); });
  if (problem.infeasible)
    return conclude(), false;
  FlatProblem flat(problem);
  best_.work += 20 * double(flat.matrices.size() + flat.extras.size());
  Answer answer;
  double least;
  if (eliminateFlat(flat, 1 << 25, 1 << 27, answer, least, best_.work)) {
    best_.offer(scope, flat, answer);
    return conclude(), false;
  }
  log("%d variables, %zu options, %zu memory points, best %ld, bound %ld", flat.count(), flat.costs.size(),
      flat.room.size(), long(best_.solution.cost), long(best_.solution.lowerBound));
  Dual dual(flat);
  std::vector<double> local;
  for (int32_t point : problem.points)
    local.push_back(prices_[point]);
  dual.setPrices(local);
  std::vector<Neighbourhood> searches = searchesFrom(flat, scope.project(flat, best_.solution.choice));
  // Short shares first: small problems end in milliseconds.
  double share = 5e6;
  Next next = Next::Phase;
  for (int phase = 0; next == Next::Phase && !best_.done(); ++phase) {
    if (phase == 1 && !triedFold_) { // not one of those that end at once
      triedFold_ = true;
      startFolded(problem);
    }
    startTree(scope, flat, dual, share);
    const double shareNow = share;
    next = this->phase(scope, flat, dual, searches, phase, share);
    if (finishTree(shareNow))
      next = Next::Proven;
  }
  tree_.reset();
  if (next == Next::Proven)
    conclude();
  return next == Next::Round;
}

/// The tree of the whole is what still moves on small flat problems, once bound and neighbourhoods stand still.
void ExactSearch::startTree(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share) {
  // Much better answers make a smaller tree from the root on.
  if (tree_ && double(treeFrom_ - best_.solution.cost) > 0.1 * (double(treeFrom_) - dual.best()))
    tree_.reset();
  if (!tree_) {
    if (flat.costs.size() > kTreeOptions || share < kTreeShare || !best_.found() ||
        lastRise_ > 0.01 * std::abs(dual.best()))
      return;
    treeBest_.emplace(best_);
    treeFrom_ = best_.solution.cost;
    tree_ = std::make_unique<Branch>(*treeBest_, restrict(scope, flat, dual, target()), kForbidden, prices_);
    best_.work += 10 * double(flat.matrices.size());
  }
  if (best_.solution.cost < treeBest_->solution.cost)
    treeBest_->solution = best_.solution;
  treeBest_->work = best_.work;
  if (options_.threads > 1)
    treeThread_ = std::thread([this, share] { treeDone_ = tree_->run(6 * share); });
}

/// True if the tree has proven that there is nothing better than the best answer.
bool ExactSearch::finishTree(double share) {
  if (!tree_)
    return false;
  if (treeThread_.joinable()) {
    treeThread_.join();
  } else {
    treeBest_->work = best_.work;
    treeDone_ = tree_->run(4 * share);
  }
  best_.work = std::max(best_.work, treeBest_->work);
  if (treeBest_->solution.cost < best_.solution.cost)
    best_.offer(treeBest_->solution.choice);
  log("tree of %ld nodes%s, best %ld", long(tree_->nodes()), treeDone_ ? ", complete" : "", long(best_.solution.cost));
  return treeDone_;
}

ExactSearch::Next ExactSearch::phase(Scope &scope, const FlatProblem &flat, Dual &dual,
                                     std::vector<Neighbourhood> &searches, int number, double &share) {
  auto raise = [&] { raiseBound(scope.problem, flat, dual, share); };
  if (number == 0)
    raise();
  else
    beside(searches, share, raise);
  if (best_.done())
    return Next::Phase;
  // Good prices are what the search lives on: while they still change much, it gets little.
  const bool rising = lastRise_ > 0.003 * std::abs(dual.best());
  if (rising && number % 4 != 0)
    return Next::Phase;
  for (Neighbourhood &search : searches)
    search.setPrices(dual.prices());
  // The bound's own answer, mended, is a fresh start near the best of the relaxation.
  if (number % 2 == 0) {
    std::vector<Neighbourhood> fresh = searchesFrom(flat, dual.answer());
    for (Neighbourhood &search : fresh) {
      search.setPrices(dual.prices());
      search.restart(dual.answer());
    }
    improve(scope, flat, fresh, share);
    for (Neighbourhood &search : fresh)
      if (search.fits() && searches[0].merge(search.best(), best_.work))
        best_.offer(scope, flat, searches[0].best());
    if (fresh[0].fits() && !(searches[0].bestCost() <= fresh[0].bestCost()))
      searches = std::move(fresh);
  }
  improve(scope, flat, searches, share);
  if (best_.done())
    return Next::Phase;
  // While the bound rises by itself, branching is too early.
  if (lastRise_ < trial_ * std::abs(dual.best())) {
    bool proven = false;
    beside(searches, share, [&] { proven = tryCutoff(scope, flat, dual, share); });
    if (proven)
      return Next::Proven;
  }
  if (best_.done())
    return Next::Phase;
  if (best_.found()) {
    Problem smaller(scope.problem);
    dual.moveInto(smaller);
    size_t dropped = fixOptions(smaller, flat, dual, target());
    if (smaller.infeasible)
      return Next::Proven;
    // A tree that has begun is given up only for a much smaller problem.
    if (dropped * (tree_ ? 4 : 20) >= flat.costs.size()) {
      if (treeThread_.joinable() && finishTree(share))
        return Next::Proven;
      tree_.reset();
      scope.problem = std::move(smaller);
      return Next::Round;
    }
    if (flat.costs.size() > 1000 && share > 1e8 && !rising)
      focus(scope, flat, dual, 2 * share);
  }
  if (target() < searches[0].bestCost())
    for (Neighbourhood &search : searches)
      search.restart(scope.project(flat, best_.solution.choice));
  share = std::min(share * 1.4, 3e9);
  return Next::Phase;
}

Solution ExactSearch::run() {
  Scope scope(best_.graph);
  prices_.assign(scope.problem.room.size(), 0);
  while (round(scope) && !best_.done())
    ;
  best_.solution.work = 1e-9 * best_.work;
  return best_.solution;
}

} // namespace

Solution tessera::strategies::searchExact(const StrategyGraph &graph, const SearchOptions &options) {
  return ExactSearch(graph, options).run();
}
