//===- BesideSearch.h - strategies that pay where collectives run beside kernels ------------------===//
//
// The search takes the least sum of compute and communication. Where messages are hidden beside kernels, less compute
// may be worth more communication, and the other way round. So the problem is solved again with weights (Weighted.h),
// more of whichever takes longer. Each answer is laid out and timed by the scheduler as the plan will be, and the best
// one is taken. Each bound holds for every step, whatever is hidden.
//
//   if (mayHide(model))
//     e = searchBeside(function, all, found, {limit, join, options}, model, report, planned);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_BESIDESEARCH_H
#define TESSERA_STRATEGIES_MODES_BESIDESEARCH_H

#include "strategies/cost/ProgramCost.h"
#include "strategies/graph/BuildGraph.h"
#include "strategies/report/Report.h"
#include "strategies/search/Search.h"
#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

struct BesideRules {
  int64_t limit;       // bytes per rank
  JoinOptions join;    // how collectives are sent
  SearchOptions first; // of the search that found the first answer
  double work;         // that it did
};

/// Whether all operators, arguments and results are cut alike: then the two cost the same.
bool sameCuts(const FunctionAssignment &a, const FunctionAssignment &b);

/// `all`: the problem with every option and its parts. `choice`: an answer to it, by node, which `function` has and
/// `planned` prices; both change where a better one is found. `report` gets the bound, and what the searches did.
llvm::Error searchBeside(FunctionAssignment &function, const BuiltGraph &all, std::vector<int32_t> choice,
                         const BesideRules &rules, const CostModel &model, SearchReport &report, ProgramCost &planned);

} // namespace tessera::strategies

#endif
