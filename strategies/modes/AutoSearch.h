//===- AutoSearch.h - the search problems of one function ------------------------------------------===//
//
// States a function's search problem, with whole or with split groups, and solves it. Both problems of a function share
// prices, budget and report.
//
//   AutoSearch search(function, options, prices, shared, fixed, data, report);
//   Searched whole = search.run(Groups::Whole, nullptr, false);
//   if (whole.found())
//     applyChoice(function, options.mesh, whole.built, whole.solution.choice);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_AUTOSEARCH_H
#define TESSERA_STRATEGIES_MODES_AUTOSEARCH_H

#include "strategies/graph/BuildGraph.h"
#include "strategies/modes/Assign.h"
#include "strategies/modes/DataPlan.h"
#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

/// A search problem of a function, and what was found: `built` has the options that the search kept, `all` every one,
/// without the problem itself.
struct Searched {
  BuiltGraph built, all;
  Solution solution;
  int64_t memoryPeak = 0;

  bool found() const { return !solution.choice.empty() && solution.cost < kForbidden; }
  /// The answer as options of `all`, by node.
  std::vector<int32_t> choice() const;
};

/// Whether a problem of whole groups is small enough to be solved with split groups as well.
bool maySplit(const WideGraph &whole);

class AutoSearch {
public:
  /// `report` gets the time and the work that it takes. `data` is priced while the first problem is solved, if someone
  /// else may have the last word. All must outlive this.
  AutoSearch(const FunctionAssignment &function, const AssignOptions &options, Prices &prices,
             const SharedShardings &shared, const FixedStrategies &fixed, DataPlan &data, SearchReport &report);

  const SearchOptions &options() const { return own_; }

  /// `start`: an answer that is known, or null. `parts`: costs have their parts, for searchBeside.
  Searched run(Groups groups, const FunctionAssignment *start, bool parts);

private:
  const FunctionAssignment &function_;
  const AssignOptions &options_;
  Prices &prices_;
  const SharedShardings &shared_;
  const FixedStrategies &fixed_;
  DataPlan &data_;
  SearchReport &report_;
  const bool stoppedBefore_;
  SearchOptions own_;
};

} // namespace tessera::strategies

#endif
