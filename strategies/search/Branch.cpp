//===- Branch.cpp - branch and bound over reduced problems --------------------------------------===//
#include "strategies/search/Branch.h"

#include "strategies/search/bound/ParetoElimination.h"
#include "strategies/search/local/Neighbourhood.h"
#include "strategies/search/reduce/Reduce.h"

#include <algorithm>
#include <cmath>
#include <memory>

using namespace tessera::strategies;

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
// Elimination of all variables of a node:
constexpr double kMostTable = 1 << 22;  // entries of one table; same
constexpr double kMostTables = 1 << 24; // entries of all tables; same
// Bounds:
constexpr int kRootPasses = 400;    // pairs of passes, at the root; same
constexpr int kChildPasses = 60;    // below it: a child begins where its parent ended; same
constexpr int kStalledPasses = 60;  // after as many without a better bound it ends; bound +0.3/-0.5 %
constexpr int kKnapsackPasses = 20; // pairs of passes, with knapsacks; same
constexpr double kChildStep = 0.1;  // Dual::stepFactor below the root, where prices are good; same
// Neighbourhoods:
constexpr int kSearchDepths = 4; // at every so many levels; same
constexpr int kSearchSteps = 30; // neighbourhoods in a node; same
// Elimination with labels. Its share is work in passes of the bound: more while it succeeds or is refused at once,
// less after failures.
constexpr double kFirstLabelShare = 300;  // in the first node; same
constexpr double kLeastLabelShare = 100;  // after failures, at least; same
constexpr double kMostLabelShare = 30000; // after successes, at most; same
constexpr double kMoreLabels = 1.3;       // factor after a success or refusal; same
constexpr double kFewerLabels = 0.6;      // factor after a failure; same
constexpr double kMostLabelWork = 0.3;    // of the work that the whole run was granted; bound 0/+0.3 %
constexpr double kRefusedAtOnce = 0.1;    // of its share: what ended before was refused; same
// Splits:
constexpr double kSplitMemory = 0.02;   // of the gap: priced memory between options that is worth a split; same
constexpr double kScoreOfDegree = 0.05; // what each link adds to a variable's score, in options excluded; same
// Again, rather than split:
constexpr size_t kExcludedForAgain = 10; // one in as many options was excluded; same
constexpr int kTriesAgain = 2;           // as often for a single option; same
// Counted work, steps:
constexpr double kEntryWork = 10; // copying and reducing walk over the matrices a few times
constexpr double kNodeWork = 1e4; // per node
} // namespace

Branch::Branch(Incumbent &incumbent, std::unique_ptr<Scope> scope, Cost cutoff, std::vector<double> pricesByPoint)
    : incumbent_(incumbent), root_(std::move(scope)), cutoff_(cutoff), prices_(std::move(pricesByPoint)),
      labelShare_(kFirstLabelShare) {}

Branch::Split Branch::chooseSplit(const Problem &problem, const FlatProblem &flat, const Dual &dual,
                                  const std::vector<std::vector<int32_t>> &ids) const {
  const std::vector<double> reduced = dual.reducedCosts();
  const double room = std::max(1.0, limit() - dual.bound());
  std::vector<double> cumulated(flat.room.size() + 1, 0);
  for (size_t p = 0; p < flat.room.size(); ++p)
    cumulated[p + 1] = cumulated[p] + dual.prices()[p];

  // Two reasons to split: options of like reduced cost whose priced memory differs are what the prices
  // cannot decide (the fractional variable of a knapsack); otherwise where the bound says most.
  Split split;
  double bestScore = -1, bestMemory = kSplitMemory * room;
  std::vector<double> memory, splitMemory;
  for (int32_t v = 0; v < flat.count(); ++v) {
    // Options that fixOptions dropped are gone from the problem, but not from the flat problem.
    if (problem.variables[flat.variables[v]].size() < 2)
      continue;
    const size_t size = size_t(flat.size(v));
    const double *cost = &reduced[flat.first[v]];
    memory.assign(size, 0);
    for (size_t k = flat.firstPiece[v]; k < flat.firstPiece[v + 1]; ++k) {
      const FlatPiece &piece = flat.pieces[k];
      double rate = cumulated[piece.to] - cumulated[piece.from];
      for (size_t s = 0; s < size; ++s)
        memory[s] += rate * flat.extras[piece.extra + s];
    }
    const size_t chosen = size_t(std::min_element(cost, cost + size) - cost);
    double sum = 0, spread = 0;
    for (size_t s = 0; s < size; ++s) {
      sum += std::min(room, cost[s]);
      if (cost[s] < room)
        spread = std::max(spread, std::abs(memory[s] - memory[chosen]) * (1 - cost[s] / room));
    }
    double score = (sum / room + kScoreOfDegree) * (1 + double(flat.links[v].size()));
    if (spread > bestMemory) {
      bestMemory = spread;
      split.variable = v;
      split.byMemory = true;
      splitMemory = memory;
    } else if (!split.byMemory && score > bestScore) {
      bestScore = score;
      split.variable = v;
    }
  }
  if (split.variable < 0)
    return split;
  // The problem's options are a subset of the flat problem's.
  const Variable &x = problem.variables[flat.variables[split.variable]];
  const std::vector<int32_t> &all = ids[split.variable];
  std::vector<double> key;
  size_t cheapest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < x.size(); ++k) {
    size_t s = size_t(std::find(all.begin(), all.end(), x.ids[k]) - all.begin());
    const double cost = reduced[flat.first[split.variable] + s];
    key.push_back(split.byMemory ? splitMemory[s] : cost);
    if (cost < least) {
      least = cost;
      cheapest = k;
    }
  }
  // Halves: taking one option off a long list would hardly move the bound.
  double middle;
  if (split.byMemory) {
    auto [low, high] = std::minmax_element(key.begin(), key.end());
    middle = (*low + *high) / 2;
  } else {
    std::vector<double> sorted(key);
    auto at = sorted.begin() + ptrdiff_t((sorted.size() - 1) / 2);
    std::nth_element(sorted.begin(), at, sorted.end());
    middle = *at;
  }
  size_t low = 0;
  for (double k : key)
    low += k <= middle;
  for (size_t k = 0; k < x.size(); ++k)
    split.first.push_back(low < x.size() ? key[k] <= middle : k < x.size() / 2);
  if (!split.first[cheapest]) // the half that the bound prefers comes first
    for (char &f : split.first)
      f = !f;
  return split;
}

/// Raises the bound. True if the bound then excludes the scope.
bool Branch::bound(Dual &dual, int most) {
  for (int i = 0; i < most && !expired(); ++i) {
    incumbent_.work += 2 * dual.passWork();
    dual.pass();
    if (provenBound(dual.pass()) >= Cost(limit()))
      return true;
    if (dual.stalledPasses() > kStalledPasses)
      break;
    dual.stepPrices(limit());
  }
  return false;
}

Branch::Outcome Branch::narrow(Scope &scope, int depth, std::vector<double> &prices, Split &split) {
  ++visited_;
  Problem &problem = scope.problem;
  for (int attempt = 0;; ++attempt) {
    reduce(problem, [&] { return expired(); });
    if (problem.infeasible)
      return Outcome::Closed;
    if (expired())
      return Outcome::Expired;
    FlatProblem flat(problem);
    incumbent_.work += kEntryWork * double(flat.matrices.size() + flat.extras.size()) + kNodeWork;
    if (flat.constant >= limit())
      return Outcome::Closed;
    Answer answer;
    double least;
    if (eliminateFlat(flat, kMostTable, kMostTables, answer, least, incumbent_.work)) {
      if (least < limit())
        offer(scope, flat, answer);
      return Outcome::Closed;
    }
    Dual dual(flat);
    std::vector<double> local;
    for (int32_t point : problem.points)
      local.push_back(prices[point]);
    dual.setPrices(local);
    if (depth > 0)
      dual.stepFactor() = kChildStep;
    if (bound(dual, depth == 0 ? kRootPasses : kChildPasses))
      return Outcome::Closed;
    if (expired())
      return Outcome::Expired;
    if (flat.excess(flat.load(dual.answer())) <= 0)
      offer(scope, flat, dual.answer());
    dual.restoreBest();
    dual.pass();
    dual.pass();
    for (size_t p = 0; p < problem.points.size(); ++p)
      prices[problem.points[p]] = dual.prices()[p];
    // Where memory comes in large pieces, knapsacks may decide what prices leave open.
    if (dual.addKnapsacks() && bound(dual, kKnapsackPasses))
      return Outcome::Closed;
    if (depth % kSearchDepths == 0) {
      Neighbourhood search(flat, dual.answer(), dual.prices(), incumbent_.options.seed + visited_);
      for (int i = 0; i < kSearchSteps && !expired(); ++i)
        search.step(incumbent_.work);
      if (search.fits() && search.bestCost() < limit())
        offer(scope, flat, search.best());
    }
    // Few labels survive close to the limit. So this elimination often closes the scope with all its children. Its
    // share of the work depends on its success so far.
    const double before = incumbent_.work;
    const double wanted = labelShare_ * dual.passWork();
    const double labelWork = std::min(wanted, kMostLabelWork * granted_);
    answer.clear();
    ParetoElimination elimination(flat, dual, limit(), [&] { return incumbent_.clock.expired(); });
    auto labels = elimination.run(labelWork, incumbent_.work, answer);
    if (labels != ParetoElimination::TooLarge || incumbent_.work - before <= kRefusedAtOnce * labelWork)
      labelShare_ = std::min(kMoreLabels * labelShare_, kMostLabelShare);
    else if (labelWork == wanted)
      labelShare_ = std::max(kFewerLabels * labelShare_, kLeastLabelShare);
    if (!answer.empty())
      offer(scope, flat, answer);
    if (labels != ParetoElimination::TooLarge)
      return Outcome::Closed;
    std::vector<std::vector<int32_t>> ids;
    for (int32_t v : flat.variables)
      ids.push_back(problem.variables[v].ids);
    dual.moveInto(problem);
    size_t dropped = fixOptions(problem, flat, dual, limit());
    if (problem.infeasible)
      return Outcome::Closed;
    if (dropped * kExcludedForAgain >= flat.costs.size() || (dropped && attempt < kTriesAgain))
      continue; // the problem is smaller now, so it is reduced and bounded again

    split = chooseSplit(problem, flat, dual, ids);
    if (split.variable < 0)
      continue; // every variable has one option left, so the reductions finish it
    split.variable = flat.variables[split.variable];
    return Outcome::Open;
  }
}

bool Branch::run(double work) {
  granted_ = work;
  deadline_ = incumbent_.work + work;
  while (!started_ || !open_.empty()) {
    if (overdue() || incumbent_.expired())
      return false;
    if (started_ && open_.back().side == 2) {
      open_.pop_back();
      continue;
    }
    Node child;
    if (!started_) {
      child.scope = std::move(root_);
      child.prices = prices_;
    } else {
      // A level keeps its problem, but none of the bound's arrays.
      const Node &node = open_.back();
      const Problem &problem = node.scope->problem;
      child.scope = std::make_unique<Scope>(*node.scope, problem);
      child.prices = node.prices;
      int32_t v = 0; // the child's number of the split variable
      for (int32_t u = 0; u < node.split.variable; ++u)
        v += problem.variables[u].alive;
      std::vector<char> keep(node.split.first);
      if (node.side == 1)
        for (char &k : keep)
          k = !k;
      child.scope->problem.keepOptions(v, keep);
    }
    const Outcome outcome = narrow(*child.scope, int(open_.size()), child.prices, child.split);
    if (outcome == Outcome::Expired) { // the node is repeated when work goes on
      if (!started_)
        root_ = std::move(child.scope);
      return false;
    }
    if (started_)
      ++open_.back().side;
    started_ = true;
    if (outcome == Outcome::Open)
      open_.push_back(std::move(child));
  }
  return true;
}
