//===- FindStages.h - where a network is best cut into stages --------------------------------------===//
//
// findStages() tries all cuts, by a dynamic program over the downsets of the graph (StageSearch.h): the answer is the
// best there is, and proven. Where there are too many downsets, or too little time, it takes those near several orders
// of the nodes, from cuts that it has found to better ones, and tells how far the answer can be from the best.
//
//   FoundStages found = findStages(problem);
//   if (found.plan.empty())
//     fail(found.infeasible ? "nothing fits" : "nothing was found that fits");
//   found.value, found.lowerBound      // equal: proven to be the best
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_FINDSTAGES_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_FINDSTAGES_H

#include "strategies/pipeline/stages/StageProblem.h"

#include <atomic>

namespace tessera::strategies {

struct StageOptions {
  double work = 20;                        // in 1e8 elementary steps, which take roughly as many seconds
  double enough = 0;                       // a plan is not improved that is no more than this part above the bound
  bool isShort = false;                    // the best plan without a limit of memory is known not to fit
  bool mayExceed = false;                  // where no plan is found that fits, the best one in any memory is taken
  uint32_t mostDownsets = 200'000;         // of one program
  const std::atomic<bool> *stop = nullptr; // the search ends when it becomes true
};

struct FoundStages {
  StagePlan plan; // empty: none was found
  int64_t value = 0, lowerBound = 0;
  bool infeasible = false; // nothing fits, proven; or nothing at all, where memory may be exceeded
  int units = 0;           // nodes, with those that share a stage counted once
  uint32_t downsets = 0;   // that were looked at
  bool complete = false;   // these are all
  double work = 0;         // that was done
  bool optimal() const { return !plan.empty() && value == lowerBound; }
};

/// Requires a problem that passes checkStageProblem. The same options give the same plan on every machine, unless they
/// stop it.
FoundStages findStages(const StageProblem &problem, const StageOptions &options = {});

} // namespace tessera::strategies

#endif
