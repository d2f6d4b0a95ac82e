#include "strategies/modes/AutoSearch.h"

#include "strategies/search/wide/SearchWide.h"

#include <chrono>

namespace tessera::strategies {

namespace {

/// Groups are split where the problem of whole groups has at most so many pairs of options side by side: beyond that
/// the search would take several times as long. Four layers of a GPT on three axes have 0.9e9, ResNet-50 has 10e9
/// there. Set by hand.
constexpr double kMostPairsToSplit = 1.5e9;
/// The effort of the search with split groups: what whole groups have left of the budget, at least this part of it. Set
/// by hand.
constexpr double kLeastSplitWork = 0.2;

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

} // namespace

std::vector<int32_t> Searched::choice() const {
  std::vector<int32_t> choice;
  for (size_t n = 0; n < built.wide.nodes.size(); ++n)
    choice.push_back(built.dense.option[n][size_t(solution.choice[n])]);
  return choice;
}

bool maySplit(const WideGraph &whole) {
  double pairs = 0;
  for (const WideEdge &edge : whole.edges)
    pairs += double(edge.fromState->size()) * double(edge.toState->size());
  return pairs <= kMostPairsToSplit;
}

AutoSearch::AutoSearch(const FunctionAssignment &function, const AssignOptions &options, Prices &prices,
                       const SharedShardings &shared, const FixedStrategies &fixed, DataPlan &data,
                       SearchReport &report)
    : function_(function), options_(options), prices_(prices), shared_(shared), fixed_(fixed), data_(data),
      report_(report), stoppedBefore_(options.stop && *options.stop) {
  own_.seconds = options.searchSeconds;
  own_.work = options.searchWork;
  own_.threads = options.searchThreads;
  own_.exactThreads = options.exactThreads;
  own_.gap = options.searchGap;
  own_.tooDear = options.tooDear;
  own_.watch = options.watch;
  if (!options.searcher.empty())
    own_.searcher = options.searcher;
  if (!stoppedBefore_)
    own_.stop = options.stop;
  own_.outdated = options.outdated;
}

Searched AutoSearch::run(Groups groups, const FunctionAssignment *start, bool parts) {
  auto begun = Clock::now();
  BuiltGraph built = buildGraph(function_, prices_.model, &fixed_, shared_, memoryOf(options_), &prices_.known, parts,
                                groups, options_.share, prices_.ofOneThread ? 1 : own_.exactThreads);
  built.wide.dataParallel = likestOptions(built, data_.lies());
  SearchOptions own = own_;
  if (groups == Groups::Split)
    own.work = std::max(kLeastSplitWork * own.work, own.work - report_.work);
  Choice known;
  if (start) {
    known = likestOptions(built, *start);
    own.start = &known;
  }
  report_.buildSeconds += since(begun);
  begun = Clock::now();
  if (own.watch) {
    own.watch->begin(options_.searchWork);
    ++own.watch->running;
  }
  const bool isComparedWithData = options_.user.empty() && options_.searcher.empty();
  if (isComparedWithData)
    data_.beginPricing();
  WideSolution found = searchWide(built.wide, own);
  data_.endPricing();
  if (own.watch)
    --own.watch->running;
  report_.solveSeconds += since(begun);
  report_.work += found.solution.work;
  report_.limited |= found.solution.limited;
  report_.stopped |= !stoppedBefore_ && options_.stop && *options_.stop && !found.solution.optimal;
  Searched searched{{}, optionsOf(built), std::move(found.solution), found.memoryPeak};
  narrow(built, std::move(found.dense));
  searched.built = std::move(built);
  return searched;
}

} // namespace tessera::strategies
