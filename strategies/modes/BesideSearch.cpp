#include "strategies/modes/BesideSearch.h"

#include "strategies/search/wide/SearchWide.h"
#include "strategies/space/InParallel.h"
#include "strategies/space/Weighted.h"

namespace tessera::strategies {

/// How often the problem is solved again: once where the first search did more than so much work, since the least that
/// a search does is then a good part of a compilation. Set by hand.
static constexpr int kSearches = 2;
static constexpr double kLargeWork = 0.5;
/// Weights are parts of so many: half of them at first, and then nearer to where both take equally long.
static constexpr int64_t kParts = 256;
/// The effort of each further search, as a part of the first one's budget and of what that has done. Set by hand, so
/// that a compilation takes little longer.
static constexpr double kWorkOfBudget = 0.1, kWorkOfFirst = 0.08, kLeastWork = 0.01;
/// For the bound alone it is solved so often at most, or once after much work or with many options, and only where that
/// may raise the bound by such a part. LLaMA 70B has twice these options, and its search took a tenth longer.
static constexpr int kBoundSearches = 3;
static constexpr size_t kManyOptions = 200'000;
static constexpr double kWorthRaising = 0.002;

/// What weights for a bound depend on.
struct BoundRules {
  explicit BoundRules(const CostModel &model) : oneLink(model.hasOneLink()), slowing(model.leastSlowing()) {}

  /// `part` of kParts are compute's. Where several kinds of links are busy at once, a step may take less time than all
  /// its messages, but not less than half of what both take; then at least half of the parts are compute's.
  Weights weights(int64_t part) const {
    const int64_t ofKernels = oneLink ? part : 2 * part - kParts; // the others are of M, or half of C + M
    return {part, kParts - part, int64_t(slowing * double(std::max<int64_t>(0, ofKernels)))};
  }
  bool proves(int64_t part) const { return oneLink || part >= kParts / 2; }

  bool oneLink;
  double slowing;
};

namespace {

/// The bound that is highest as far as these choices tell: with no weights it is more than what any choice costs.
struct HighestBound {
  HighestBound(const BoundRules &rules, const std::vector<CostParts> &choices) {
    for (int64_t now = 1; now < kParts; ++now) {
      Cost least = std::numeric_limits<Cost>::max();
      for (const CostParts &choice : choices)
        least = std::min(least, rules.weights(now).bound(rules.weights(now).of(choice)));
      if (rules.proves(now) && least > bound) {
        part = now;
        bound = least;
      }
    }
  }
  int64_t part = kParts / 2; // of compute
  Cost bound = 0;
};

} // namespace

/// By node the option of the wide graph that an answer to it has.
static std::vector<int32_t> optionsIn(const WideSolution &found, size_t nodes) {
  std::vector<int32_t> options;
  for (size_t n = 0; n < nodes; ++n)
    options.push_back(found.dense.option[n][size_t(found.solution.choice[n])]);
  return options;
}

bool sameCuts(const FunctionAssignment &a, const FunctionAssignment &b) {
  return a.assignment.strategies == b.assignment.strategies && a.args == b.args && a.results == b.results;
}

void BesideBound::begin(int threads) {
  if (!look_)
    return;
  found_ = std::async(besideCaller(threads), std::exchange(look_, nullptr));
}

void BesideBound::tell(SearchReport &report) {
  if (!found_.valid())
    return;
  const Found found = found_.get();
  report.besideBound = std::max(report.besideBound, found.bound);
  report.work += found.work;
}

llvm::Error searchBeside(FunctionAssignment &function, BuiltGraph all, std::vector<int32_t> choice,
                         const BesideRules &rules, const CostModel &model, SearchReport &report, ProgramCost &planned,
                         BesideBound &bound) {
  SearchOptions options = rules.first;
  options.work = std::max(kLeastWork, std::min(kWorkOfBudget * rules.first.work, kWorkOfFirst * report.work));
  report.limited |= kWorkOfBudget * rules.first.work < kWorkOfFirst * report.work;
  options.tooDear = std::numeric_limits<Cost>::max();
  options.watch = nullptr;                             // which shows the sum
  int64_t none = 0, whole = kParts, part = kParts / 2; // of compute
  Cost compute = planned.compute, communication = planned.communication;
  const BoundRules boundRules(model);
  std::vector<CostParts> tried = {partsOf(all.wide, choice)};
  const bool large = rules.work > kLargeWork;
  const int searches = large ? 1 : kSearches;
  for (int search = 0; search < searches; ++search) {
    (compute >= communication ? none : whole) = part;
    part = (none + whole) / 2;
    const Weights weights = boundRules.weights(part);
    options.start = &choice;
    WideSolution found = searchWide(weighted(all.wide, weights), options);
    report.work += found.solution.work;
    if (boundRules.proves(part))
      report.besideBound = std::max(report.besideBound, weights.bound(found.solution.lowerBound));
    if (found.solution.choice.empty() || found.solution.cost >= kForbidden)
      break;
    std::vector<int32_t> answer = optionsIn(found, choice.size());
    BuiltGraph narrowed = optionsOf(all);
    narrow(narrowed, std::move(found.dense));
    tried.push_back(partsOf(all.wide, answer));
    FunctionAssignment trial = function;
    applyChoice(trial, model.mesh(), narrowed, found.solution.choice);
    trial.finishResults();
    if (sameCuts(trial, function)) { // which is priced
      compute = planned.compute;
      communication = planned.communication;
      continue;
    }
    // The next weights follow from what this one takes; the last one need not be priced where it cannot be better.
    const Cost than = search + 1 < searches ? std::numeric_limits<Cost>::max() : planned.predicted();
    std::optional<ProgramCost> priced;
    if (llvm::Error e = priceIfShorter(chosenIn(trial), model, rules.join, than).moveInto(priced))
      return e;
    if (!priced)
      break;
    compute = priced->compute;
    communication = priced->communication;
    if (priced->predicted() >= planned.predicted() || priced->peakBytes > rules.limit)
      continue;
    choice = std::move(answer);
    function.assignment = std::move(trial.assignment);
    function.args = std::move(trial.args);
    function.results = std::move(trial.results);
    planned = std::move(*priced);
    report.alternatives.clear(); // to the first answer
    report.searcher = rules.searcher + ", weights " + std::to_string(part) + ":" + std::to_string(kParts - part);
    // The bound is one on this sum, not on what is joined and hidden in the plan.
    report.cost = summedCost(all.wide, choice);
    report.optimal = false;
  }
  // For the bound alone, without answers to price.
  if (rules.proof == BesideRules::Proof::None)
    return llvm::Error::success();
  options.boundAlone = true;
  options.threads = 1; // it may depend on their number
  size_t numOptions = 0;
  for (const WideNode &node : all.wide.nodes)
    numOptions += node.costs->size();
  const int most = large || numOptions > kManyOptions ? 1 : kBoundSearches;
  auto prove = [wide = std::move(all.wide), choice = std::move(choice), tried = std::move(tried), options, boundRules,
                most, known = report.besideBound]() mutable {
    BesideBound::Found best{known, 0};
    for (int search = 0; search < most; ++search) {
      const HighestBound highest(boundRules, tried);
      if (double(highest.bound) <= double(best.bound) * (1 + kWorthRaising))
        break;
      const Weights weights = boundRules.weights(highest.part);
      const WideGraph problem = weighted(wide, weights);
      const bool last = search + 1 == most;
      if (last)
        wide = {}; // the caller may be stating a problem of its own
      options.start = &choice;
      const WideSolution found = searchWide(problem, options);
      best.work += found.solution.work;
      best.bound = std::max(best.bound, weights.bound(found.solution.lowerBound));
      if (last || found.solution.choice.empty() || found.solution.cost >= kForbidden)
        break;
      tried.push_back(partsOf(wide, optionsIn(found, choice.size())));
    }
    return best;
  };
  bound = BesideBound(std::move(prove));
  if (rules.proof == BesideRules::Proof::Now)
    bound.begin(options.exactThreads);
  return llvm::Error::success();
}

} // namespace tessera::strategies
