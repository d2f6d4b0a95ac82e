//===- BesideSearch.h - strategies that pay where collectives run beside kernels ------------------===//
//
// The search takes the least sum of compute and communication. Where messages are hidden beside kernels, less compute
// may be worth more communication, and the other way round. So the problem is solved again with weights (Weighted.h),
// more of whichever takes longer. Each answer is laid out and timed by the scheduler as the plan will be, and the best
// one is taken. Each bound holds for every step, whatever is hidden.
//
// The last search looks for a bound alone. Nothing waits for it: it runs on another thread while the caller goes on,
// with the next function for example, or begins later.
//
//   BesideBound bound;
//   if (mayHide(model))
//     e = searchBeside(function, std::move(all), found, {limit, join, options}, model, report, planned, bound);
//   ...
//   bound.tell(report);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_BESIDESEARCH_H
#define TESSERA_STRATEGIES_MODES_BESIDESEARCH_H

#include "strategies/cost/ProgramCost.h"
#include "strategies/graph/BuildGraph.h"
#include "strategies/report/Report.h"
#include "strategies/search/Search.h"
#include "strategies/space/FunctionAssignment.h"

#include <functional>
#include <future>

namespace tessera::strategies {

struct BesideRules {
  int64_t limit;                                            // bytes per rank
  JoinOptions join;                                         // how collectives are sent
  SearchOptions first;                                      // of the search that found the first answer
  double work;                                              // that it did
  std::string searcher;                                     // what it was
  enum class Proof { None, Later, Now } proof = Proof::Now; // once more for the bound alone
};

/// A bound that is still looked for, or will be.
class BesideBound {
public:
  BesideBound() = default;
  struct Found {
    Cost bound = 0;
    double work = 0;
  };
  explicit BesideBound(std::function<Found()> look) : look_(std::move(look)) {}
  /// On another thread where there are several. Where the system gives none, it is looked for when it is asked for.
  void begin(int threads);
  /// Waits for it, if it has begun.
  void tell(SearchReport &report);

private:
  std::function<Found()> look_;
  std::future<Found> found_;
};

/// Whether all operators, arguments and results are cut alike: then the two cost the same.
bool sameCuts(const FunctionAssignment &a, const FunctionAssignment &b);

/// `all`: the problem with every option and its parts. `choice`: an answer to it, by node, which `function` has and
/// `planned` prices; both change where a better one is found. `report` gets what the searches prove and did; `bound`
/// tells it the rest.
llvm::Error searchBeside(FunctionAssignment &function, BuiltGraph all, std::vector<int32_t> choice,
                         const BesideRules &rules, const CostModel &model, SearchReport &report, ProgramCost &planned,
                         BesideBound &bound);

} // namespace tessera::strategies

#endif
