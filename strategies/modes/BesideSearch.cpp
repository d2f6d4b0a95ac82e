#include "strategies/modes/BesideSearch.h"

#include "strategies/search/wide/SearchWide.h"
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

/// Weights for a bound: `part` of kParts are compute's. Where several kinds of links are busy at once, a step may take
/// less time than all its messages, but not less than half of what both take; then at least half of the parts are
/// compute's.
static Weights boundWeights(int64_t part, const CostModel &model) {
  const int64_t ofKernels = model.hasOneLink() ? part : 2 * part - kParts; // the others are of M, or half of C + M
  return {part, kParts - part, int64_t(model.leastSlowing() * double(std::max<int64_t>(0, ofKernels)))};
}

bool sameCuts(const FunctionAssignment &a, const FunctionAssignment &b) {
  return a.assignment.strategies == b.assignment.strategies && a.args == b.args && a.results == b.results;
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
  options.tooDear = std::numeric_limits<Cost>::max();
  options.watch = nullptr; // which shows the sum
  const std::string searcher = report.searcher;
  int64_t none = 0, whole = kParts, part = kParts / 2; // of compute
  Cost compute = planned.compute, communication = planned.communication;
  const int searches = rules.work > kLargeWork ? 1 : kSearches;
  auto proves = [&](int64_t ofCompute) { return ofCompute >= kParts / 2 || model.hasOneLink(); };
  for (int search = 0; search < searches; ++search) {
    (compute >= communication ? none : whole) = part;
    part = (none + whole) / 2;
    const Weights weights = boundWeights(part, model);
    options.start = &choice;
    WideSolution found = searchWide(weighted(all.wide, weights), options);
    report.work += found.solution.work;
    if (proves(part))
      report.besideBound = std::max(report.besideBound, weights.bound(found.solution.lowerBound));
    if (found.solution.choice.empty() || found.solution.cost >= kForbidden)
      break;
    BuiltGraph narrowed = optionsOf(all);
    narrow(narrowed, std::move(found.dense));
    FunctionAssignment trial = function;
    applyChoice(trial, model.mesh(), narrowed, found.solution.choice);
    trial.finishResults();
    if (sameCuts(trial, function)) { // which is priced
      compute = planned.compute;
      communication = planned.communication;
      continue;
    }
    llvm::Expected<ProgramCost> priced = priceProgram(chosenIn(trial), model, rules.join);
    if (!priced)
      return priced.takeError();
    compute = priced->compute;
    communication = priced->communication;
    if (priced->predicted() >= planned.predicted() || priced->peakBytes > rules.limit)
      continue;
    for (size_t n = 0; n < choice.size(); ++n)
      choice[n] = narrowed.dense.option[n][size_t(found.solution.choice[n])];
    function.assignment = std::move(trial.assignment);
    function.args = std::move(trial.args);
    function.results = std::move(trial.results);
    planned = std::move(*priced);
    report.alternatives.clear(); // to the first answer
    report.searcher = searcher + ", weights " + std::to_string(part) + ":" + std::to_string(kParts - part);
    // The bound is one on this sum, not on what is joined and hidden in the plan.
    report.cost = summedCost(all.wide, choice);
    report.optimal = false;
  }
  // Once more for the bound alone, without an answer to price. Where one side has been longer all the time, nearly the
  // whole weight belongs to it.
  (compute >= communication ? none : whole) = part;
  const int64_t last = none == 0 ? 1 : whole == kParts ? kParts - 1 : (none + whole) / 2;
  if (!rules.prove || !proves(last))
    return llvm::Error::success();
  options.boundAlone = true;
  auto prove = [wide = std::move(all.wide), choice = std::move(choice), weights = boundWeights(last, model),
                options]() mutable {
    const WideGraph problem = weighted(wide, weights);
    wide = {}; // the caller may be stating a problem of its own
    options.start = &choice;
    const WideSolution found = searchWide(problem, options);
    return BesideBound::Found{weights.bound(found.solution.lowerBound), found.solution.work};
  };
  // Where the system gives no thread, it is looked for when it is asked for.
  const auto when = std::launch::deferred | (options.exactThreads > 1 ? std::launch::async : std::launch::deferred);
  bound = BesideBound(std::async(when, std::move(prove)));
  return llvm::Error::success();
}

} // namespace tessera::strategies
