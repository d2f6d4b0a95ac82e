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
#include "strategies/search/bound/Annealing.h"
#include "strategies/search/bound/BothSides.h"
#include "strategies/search/local/Neighbourhood.h"
#include "strategies/search/problem/MemoryPoints.h"
#include "strategies/search/reduce/LayerFolding.h"
#include "strategies/search/reduce/Reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

using namespace tessera::strategies;

namespace {

// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
// Shares: what one tool may spend in a phase, in steps of counted work.
constexpr double kFirstShare = 5e6;  // steps: small problems end in milliseconds; 0/-0.9 %
constexpr double kShareGrowth = 1.4; // factor from phase to phase; 0/+3.0 %
constexpr double kMostShare = 3e9;   // steps; same
// Bounds:
constexpr int kLeastPasses = 40;              // in a phase, whatever they cost; bound -0.9/-0.3 %
constexpr int kPassesUnpriced = 10;           // at the start of a phase: messages settle before prices move; -0.9/0 %
constexpr int kPassesAtGivenPrices = 35;      // the same in a search that begins with prices; not measured
constexpr int kMostStalledPasses = 400;       // after as many without a better bound a phase raises no more; same
constexpr double kLeastFirstStep = 0.05;      // of Dual::stepFactor at the beginning of a phase; 0/-0.9 %
constexpr double kCourse = 60;                // rounds of annealing that the budget must have room for; not measured
constexpr double kRising = 0.003;             // relative rise in a phase: above it prices still change much; 0/+23.0 %
constexpr int kNeighbourhoodsWhileRising = 4; // once in as many phases; +20.0/-0.9 %
// Neighbourhoods:
constexpr double kGuidedShare = 0.3;   // of a search, in which priced memory counts as cost; -0.9/+15.6 %
constexpr double kFarFromBest = 0.002; // relative cost above the best from which a search goes back to it; same
constexpr double kWorthMore = 2e-3; // relative gain of a search in a share: with as much it gets another; not measured
constexpr int kMostShares = 40;     // of one search in a phase, at most; not measured
constexpr int kFreshStart = 2;      // once in as many phases a search begins at the bound's own answer; 0/+5.6 %
// Trial cutoffs:
constexpr double kFirstTrial = 0.01; // relative distance from the bound; bound 0/+0.6 %
constexpr double kNearerTrial = 0.5; // factor after one that stayed open; bound -0.3/+0.2 %
constexpr double kFartherTrial = 3;  // factor after one that was excluded; bound +0.1/+0.6 %
// Focus: neighbourhoods among options whose reduced cost is at most a part (the narrowness) of the gap.
constexpr double kFirstNarrowness = 0.5; // of the first focus; same
constexpr double kNarrower = 0.6;        // factor after a focus without a better answer; same
constexpr double kNarrowest = 0.01;      // below it the focus becomes wide again; same
constexpr double kWidest = 0.7;          // as wide as this; same
constexpr size_t kFocusOptions = 1000;   // of a problem, at least; same
constexpr double kFocusFrom = 1e8;       // steps: the share, at least; same
constexpr double kFocusShares = 2;       // what one focus may spend, in shares; same
// The tree of the whole problem:
constexpr size_t kTreeOptions = 20000;  // of a problem, at most; same
constexpr double kTreeFrom = 2e7;       // steps: the share, at least; +5.6/0 %
constexpr double kTreeRise = 0.01;      // relative rise of the bound in the last phase, at most; same
constexpr double kTreeAnew = 0.1;       // of its gap: an answer that closes more makes the whole tree smaller; same
constexpr double kTreeShares = 4;       // in a phase, on the only thread; same
constexpr double kTreeSharesBeside = 6; // in a phase, on a thread of its own; same
// Rounds: one in as many options must be excluded to reduce anew, one in fewer where that gives up a tree.
constexpr size_t kExcludedForRound = 20;   // without a tree; +5.6/0 %
constexpr size_t kExcludedDespiteTree = 4; // with a tree; same
// Folding of equal layers:
constexpr size_t kFoldedVariables = 10; // one group for as many variables, or the network does not repeat itself; same
constexpr double kFoldShare = 0.3;      // of the work that is left; same
constexpr double kFoldWork = 1;         // 1e9 steps, at most; same
constexpr double kFoldGap = 0.02;       // relative: nearer to the bound equal choices are no help; not measured
// Elimination of all variables:
constexpr double kMostTable = 1 << 25;  // entries of one table; same
constexpr double kMostTables = 1 << 27; // entries of all tables; same
// Where an answer is known at the start, which tessera-solve has none of; so half and twice are not measured:
constexpr double kDearTables = 1 << 24; // entries of all tables; with more, what that answer excludes goes first
constexpr double kExcludeShare = 0.25;  // of the steps of such an elimination: to improve that answer before
// Counted work, steps:
constexpr double kFlattenWork = 20;   // per entry: reducing and flattening walk over the matrices often
constexpr double kTreeRootWork = 10;  // per entry: copying a problem
constexpr double kFoldNodeWork = 100; // per node of the graph
constexpr double kFoldEntryWork = 4;  // per entry of an edge's matrix

constexpr uint64_t kSeedStride = 1000003; // a prime: the random streams of two small seeds do not meet

/// Runs `work` beside the caller or, where the system gives no thread, now: the result is the same, later.
template <typename F> std::thread startOrRun(const F &work) {
  try {
    return std::thread(work);
  } catch (const std::system_error &) {
    work();
    return {};
  }
}

void joinAll(std::span<std::thread> threads) {
  for (std::thread &thread : threads)
    if (thread.joinable())
      thread.join();
}

class ExactSearch {
public:
  ExactSearch(const StrategyGraph &graph, const SearchOptions &options) : best_(graph, options), options_(options) {}

  Solution run();

private:
  bool round(Scope &scope);
  bool excludeBefore(Scope &scope, const FlatProblem &flat, double entries);
  enum class Next { Phase, Round, Proven };
  Next phase(Scope &scope, const FlatProblem &flat, Dual &dual, BothSides &sides, std::vector<Neighbourhood> &searches,
             int number, double &share);
  void startTree(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share);
  bool finishTree(double share);
  void startFolded(const Problem &problem);
  void raiseBound(const Problem &problem, const FlatProblem &flat, Dual &dual, BothSides &sides, double share);
  int pass(const FlatProblem &flat, Dual &dual, BothSides &sides, double end);
  int anneal(Dual &dual, double end);
  /// Counted work that is left, in steps. Seconds count as what they are about, not by the clock.
  double workLeft() const { return 1e9 * (options_.work > 0 ? options_.work : options_.seconds) - best_.work; }
  int64_t search(Neighbourhood &search, double share) const;
  int64_t searchOn(Neighbourhood &search, double share, double &work) const;
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
      threads.push_back(startOrRun([&, t] { search(searches[t], share); }));
    bounds();
    joinAll(threads);
  }
  void conclude() { // closes the search: the present problem holds no better answer
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
  bool treeBegun_ = false, treeDone_ = false;
  Cost treeFrom_ = 0;                    // the best answer when it was begun
  std::vector<double> prices_;           // by Problem::points
  double trial_ = kFirstTrial;           // distance of the next cutoff from the bound, relative
  double narrowness_ = kFirstNarrowness; // of the next focus
  double lastRise_ = 0;                  // of the bound in the last phase
  bool settled_ = false;                 // a phase of passes has raised it by little
  Annealing annealing_;                  // goes on from round to round
  uint64_t streams_ = 0;                 // random streams handed out
  bool triedFold_ = false;
  bool limited_ = false;                      // a larger budget would have led elsewhere
  bool excluded_ = false;                     // what is in no better answer has gone before elimination
  bool pricesGiven_ = false, raised_ = false; // prices_ are those of another search; a bound has been raised
};

/// Raises the bound until the counted work `end`. Returns the number of passes.
int ExactSearch::pass(const FlatProblem &flat, Dual &dual, BothSides &sides, double end) {
  int passes = 0;
  const int unpriced = pricesGiven_ && !raised_ ? kPassesAtGivenPrices : kPassesUnpriced;
  raised_ = true;
  // Steps that shortened in the last phase may have done so too early.
  dual.stepFactor() = std::max(dual.stepFactor(), kLeastFirstStep);
  while (!best_.done() && (passes < kLeastPasses || best_.work < end) && dual.stalledPasses() < kMostStalledPasses) {
    dual.pass();
    ++passes;
    best_.work += dual.passWork();
    if (!flat.room.empty())
      best_.work += sides.see(dual);
    if (!flat.room.empty() && passes > unpriced)
      dual.stepPrices(target());
  }
  return passes;
}

/// The same by annealing. Returns the number of rounds.
int ExactSearch::anneal(Dual &dual, double end) {
  int rounds = 0;
  if (!std::isfinite(dual.best()))
    dual.pass(); // the bound that a round before has left
  do {
    if (!annealing_.hot()) {
      annealing_.reheat();
      dual.restoreBest();
    }
    best_.work += annealing_.round(dual, target());
    ++rounds;
  } while (annealing_.hot() && !best_.done() && best_.work < end);
  return rounds;
}

void ExactSearch::raiseBound(const Problem &problem, const FlatProblem &flat, Dual &dual, BothSides &sides,
                             double share) {
  const double end = best_.work + share, before = dual.best();
  // Passes are faster as long as they raise the bound. A course of annealing that does not end is of no use, and what a
  // small problem needs is its tree.
  const bool large = settled_ && flat.costs.size() > kTreeOptions;
  const bool hasRoom = large && workLeft() > kCourse * Annealing::roundWork(dual);
  limited_ |= large && !hasRoom;
  if (settled_ && (annealing_.begun() || hasRoom)) {
    const int rounds = anneal(dual, end);
    log("%d rounds of annealing: bound %.0f", rounds, dual.best());
  } else {
    const int passes = pass(flat, dual, sides, end);
    log("%d passes: bound %.0f, step %.2g", passes, dual.best(), dual.stepFactor());
  }
  dual.restoreBest();
  dual.pass();
  dual.pass();
  lastRise_ = dual.best() - before;
  settled_ |= lastRise_ <= kRising * std::abs(dual.best());
  best_.raise(provenBound(dual.best()));
  for (size_t p = 0; p < problem.points.size(); ++p)
    prices_[problem.points[p]] = dual.prices()[p];
}

std::vector<Neighbourhood> ExactSearch::searchesFrom(const FlatProblem &flat, const Answer &start) {
  std::vector<Neighbourhood> searches;
  for (size_t t = 0; t < primal(); ++t)
    searches.emplace_back(flat, start, std::vector<double>(flat.room.size(), 0),
                          options_.seed * kSeedStride + streams_++);
  return searches;
}

/// Returns the number of neighbourhoods. Touches nothing else: it may run beside the bounds.
int64_t ExactSearch::search(Neighbourhood &search, double share) const {
  int64_t steps = 0;
  for (double spent = 0; spent < share && !best_.clock.expired(); ++steps) {
    search.setGuidance(search.fits() && spent < kGuidedShare * share ? 1 : 0);
    search.step(spent);
  }
  if (search.fits())
    search.returnToBest(kFarFromBest);
  return steps;
}

/// The same, and goes on while that pays.
int64_t ExactSearch::searchOn(Neighbourhood &search, double share, double &work) const {
  int64_t steps = 0;
  for (int shares = 0; shares < kMostShares; ++shares) {
    const double before = search.bestCost();
    steps += this->search(search, share);
    work += share;
    // One that found its first answer has gained, too.
    if (best_.expired() || !search.fits() || search.bestCost() > before * (1 - kWorthMore))
      break;
  }
  return steps;
}

/// Lets every search run for the same work, one thread each, and then all continue from the best.
void ExactSearch::improve(const Scope &scope, const FlatProblem &flat, std::vector<Neighbourhood> &searches,
                          double share) {
  int64_t steps = 0;
  std::vector<std::thread> threads;
  for (size_t t = 1; t < std::min(primal(), searches.size()); ++t)
    threads.push_back(startOrRun([&, t] { search(searches[t], share); }));
  steps = searchOn(searches[0], share, best_.work);
  joinAll(threads);
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

/// Copies the part of a scope that may hold answers below the cutoff.
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
      trial_ *= kNearerTrial;
    return false;
  }
  if (branch.found())
    return true;
  best_.raise(cutoff);
  trial_ *= kFartherTrial;
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
  best_.work += kFlattenWork * double(flat.matrices.size());
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
    narrowness_ = narrowness_ < kNarrowest ? kWidest : narrowness_ * kNarrower;
}

/// Finds a first answer in which equal layers choose alike. It is near the best where a network repeats itself, and the
/// work does not grow with the number of layers.
void ExactSearch::startFolded(const Problem &problem) {
  const StrategyGraph &graph = options_.alike ? *options_.alike : best_.graph;
  LayerFolding fold(graph, problem.variableOf);
  best_.work += kFoldNodeWork * double(graph.nodes.size());
  for (const StrategyEdge &edge : graph.edges)
    best_.work += kFoldEntryWork * double(edge.costs.size());
  if (size_t(fold.groups) * kFoldedVariables > problem.variables.size())
    return; // the network hardly repeats itself
  SearchOptions own = options_;
  own.start = nullptr;
  own.alike = nullptr;
  own.bound = best_.solution.lowerBound;
  std::vector<double> prices = prices_; // at the same points in time
  own.prices = pricesGiven_ ? &prices : nullptr;
  own.watch = nullptr; // its costs are those of another problem
  own.work = options_.work > 0 ? std::min(kFoldWork, kFoldShare * (options_.work - 1e-9 * best_.work)) : kFoldWork;
  own.seconds = best_.clock.left();
  if (own.work <= 0)
    return;
  Solution folded = searchExact(fold.graph, own);
  best_.work += 1e9 * folded.work;
  limited_ |= folded.limited;
  if (!folded.choice.empty())
    best_.offer(fold.unfold(folded.choice));
  log("folded %zu variables to %d: best %ld", problem.variables.size(), fold.groups, long(best_.solution.cost));
}

/// Raises the bound and improves the answer for a short while. True if options go that are in no better answer, or
/// nothing better is left.
bool ExactSearch::excludeBefore(Scope &scope, const FlatProblem &flat, double entries) {
  Dual dual(flat);
  for (int passes = 0; passes < kLeastPasses; ++passes) { // however near the answer is
    dual.pass();
    best_.work += dual.passWork();
  }
  dual.restoreBest();
  dual.pass();
  dual.pass();
  best_.raise(provenBound(dual.best()));
  Neighbourhood search(flat, dual.answer(), {}, options_.seed * kSeedStride + streams_++); // one, on any threads
  double spent = 0, before = 0;
  do {
    before = search.bestCost();
    this->search(search, kFirstShare);
    spent += kFirstShare;
  } while (spent < kExcludeShare * entries && search.bestCost() < before * (1 - kWorthMore) && !best_.expired());
  best_.work += spent;
  if (search.fits() && search.bestCost() < target())
    best_.offer(scope, flat, search.best());
  Problem smaller(scope.problem);
  dual.moveInto(smaller);
  const size_t dropped = fixOptions(smaller, flat, dual, target());
  log("%zu of %zu options excluded before elimination", dropped, flat.costs.size());
  if (dropped == 0 && !smaller.infeasible)
    return false;
  scope.problem = std::move(smaller);
  return true;
}

/// One round on the present problem; false when there is nothing more to do.
bool ExactSearch::round(Scope &scope) {
  Problem &problem = scope.problem;
  reduce(problem, [&] { return best_.clock.expired(); });
  if (problem.infeasible)
    return conclude(), false;
  FlatProblem flat(problem);
  best_.work += kFlattenWork * double(flat.matrices.size() + flat.extras.size());
  Answer answer;
  double least;
  if (options_.start && best_.found() && !std::exchange(excluded_, true))
    if (const double entries = eliminationEntries(flat, kMostTable, kMostTables);
        entries > kDearTables && std::isfinite(entries) && excludeBefore(scope, flat, entries))
      return round(scope);
  if (eliminateFlat(flat, kMostTable, kMostTables, answer, least, best_.work)) {
    best_.offer(scope, flat, answer);
    return conclude(), false;
  }
  log("%d variables, %zu options, %zu memory points, best %ld, bound %ld", flat.count(), flat.costs.size(),
      flat.room.size(), long(best_.solution.cost), long(best_.solution.lowerBound));
  Dual dual(flat);
  BothSides sides(flat);
  annealing_.renumber();
  if (pricesGiven_ && !raised_)
    prices_ = gatherPrices(prices_, problem.points);
  std::vector<double> local;
  for (int32_t point : problem.points)
    local.push_back(prices_[point]);
  dual.setPrices(local);
  std::vector<Neighbourhood> searches = searchesFrom(flat, scope.project(flat, best_.solution.choice));
  double share = kFirstShare;
  Next next = Next::Phase;
  for (int phase = 0; next == Next::Phase && !best_.done(); ++phase) {
    if (phase == 1 && !triedFold_) { // a problem that ends at once needs no folding
      triedFold_ = true;
      if (double(best_.solution.cost) > double(best_.solution.lowerBound) * (1 + kFoldGap))
        startFolded(problem);
    }
    startTree(scope, flat, dual, share);
    const double shareNow = share;
    next = this->phase(scope, flat, dual, sides, searches, phase, share);
    if (finishTree(shareNow))
      next = Next::Proven;
  }
  tree_.reset();
  if (next == Next::Proven)
    conclude();
  return next == Next::Round;
}

/// Begins a tree of the whole problem. On small flat problems it still makes progress when bound and neighbourhoods do
/// not.
void ExactSearch::startTree(const Scope &scope, const FlatProblem &flat, const Dual &dual, double share) {
  if (tree_ && double(treeFrom_ - best_.solution.cost) > kTreeAnew * (double(treeFrom_) - dual.best()))
    tree_.reset();
  if (!tree_) {
    if (flat.costs.size() > kTreeOptions || share < kTreeFrom || !best_.found() ||
        lastRise_ > kTreeRise * std::abs(dual.best()))
      return;
    treeBest_.emplace(best_);
    treeFrom_ = best_.solution.cost;
    tree_ = std::make_unique<Branch>(*treeBest_, restrict(scope, flat, dual, target()), kForbidden, prices_);
    best_.work += kTreeRootWork * double(flat.matrices.size());
  }
  if (best_.solution.cost < treeBest_->solution.cost)
    treeBest_->solution = best_.solution;
  treeBest_->work = best_.work;
  if (treeBegun_ = options_.threads > 1; treeBegun_)
    treeThread_ = startOrRun([this, share] { treeDone_ = tree_->run(kTreeSharesBeside * share); });
}

/// True if the tree has proven that there is nothing better than the best answer.
bool ExactSearch::finishTree(double share) {
  if (!tree_)
    return false;
  if (treeBegun_) {
    joinAll({&treeThread_, 1});
    treeBegun_ = false;
  } else {
    treeBest_->work = best_.work;
    treeDone_ = tree_->run(kTreeShares * share);
  }
  best_.work = std::max(best_.work, treeBest_->work);
  if (treeBest_->solution.cost < best_.solution.cost)
    best_.offer(treeBest_->solution.choice);
  log("tree of %ld nodes%s, best %ld", long(tree_->nodes()), treeDone_ ? ", complete" : "", long(best_.solution.cost));
  return treeDone_;
}

ExactSearch::Next ExactSearch::phase(Scope &scope, const FlatProblem &flat, Dual &dual, BothSides &sides,
                                     std::vector<Neighbourhood> &searches, int number, double &share) {
  auto raise = [&] { raiseBound(scope.problem, flat, dual, sides, share); };
  if (number == 0)
    raise();
  else
    beside(searches, share, raise);
  if (best_.done())
    return Next::Phase;
  // The search depends on good prices. While they still change much, it gets little of the work.
  const bool rising = lastRise_ > kRising * std::abs(dual.best());
  if (rising && number % kNeighbourhoodsWhileRising != 0)
    return Next::Phase;
  for (Neighbourhood &search : searches)
    search.setPrices(dual.prices());
  // The bound's own answer, changed until it fits, is a fresh start near the best of the relaxation.
  if (number % kFreshStart == 0) {
    std::vector<Neighbourhood> fresh = searchesFrom(flat, dual.answer());
    for (Neighbourhood &search : fresh) {
      search.setPrices(dual.prices());
      search.restart(dual.answer());
    }
    // Of equal layers that answer has all alike, and so have those before it. A mix of two may be better than any yet.
    if (sides.known()) {
      Neighbourhood mix(flat, sides.fitting(), dual.prices(), options_.seed);
      mix.merge(sides.exceeding(), best_.work);
      log("mix of the bound's answers: %.0f", mix.bestCost());
      if (mix.bestCost() < target())
        fresh[0].restart(mix.best());
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
    // A tree that has begun is only given up if the problem has become much smaller.
    if (dropped * (tree_ ? kExcludedDespiteTree : kExcludedForRound) >= flat.costs.size()) {
      if (treeBegun_ && finishTree(share))
        return Next::Proven;
      tree_.reset();
      scope.problem = std::move(smaller);
      return Next::Round;
    }
    if (flat.costs.size() > kFocusOptions && share > kFocusFrom && !rising)
      focus(scope, flat, dual, kFocusShares * share);
  }
  if (target() < searches[0].bestCost())
    for (Neighbourhood &search : searches)
      search.restart(scope.project(flat, best_.solution.choice));
  share = std::min(share * kShareGrowth, kMostShare);
  return Next::Phase;
}

Solution ExactSearch::run() {
  Scope scope(best_.graph);
  prices_.assign(scope.problem.room.size(), 0);
  if (options_.prices && options_.prices->size() == prices_.size()) {
    prices_ = *options_.prices;
    pricesGiven_ = std::any_of(prices_.begin(), prices_.end(), [](double price) { return price > 0; });
  }
  if (options_.start) {
    best_.offer(*options_.start);
    triedFold_ = best_.found();
  }
  while (round(scope) && !best_.done())
    ;
  best_.solution.work = 1e-9 * best_.work;
  best_.solution.limited = limited_ || best_.expired();
  if (options_.prices)
    *options_.prices = prices_;
  return best_.solution;
}

} // namespace

Solution tessera::strategies::searchExact(const StrategyGraph &graph, const SearchOptions &options) {
  return ExactSearch(graph, options).run();
}
