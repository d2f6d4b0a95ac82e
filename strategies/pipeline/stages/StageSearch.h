//===- StageSearch.h - the dynamic program over downsets -------------------------------------------===//
//
// A label of a downset is a way to cut it into stages: the devices and replicas that it takes, its sum of latencies and
// its longest interval. From every downset and label the program tries every stage in front of it, in every way, with
// every number of replicas. It drops labels that another dominates, and those that cannot beat the best plan: what is
// left needs at least its work divided by the devices that are left. Where stages share memory, a label also says what
// their places need, and it dominates another only if it leaves as much room.
//
// If labels are dropped for want of room or time, the least bound of those that were dropped is a bound of all.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_STAGESEARCH_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_STAGESEARCH_H

#include "strategies/pipeline/stages/Downsets.h"

#include <atomic>

namespace tessera::strategies {

/// What every device must bear if the work is divided evenly: a unit counts what it takes in its best way, a device
/// what its kind is worth beside the others.
struct StageWork {
  std::vector<double> worth;    // by kind of devices
  std::vector<double> work;     // by unit, in time of devices times worth
  std::vector<int64_t> latency; // by unit, in its best way
  int64_t bound = 0;            // of the goal
};

/// Requires units with sums. An interval of the plan cannot be below the bound, whatever the cuts.
StageWork workOf(const StageProblem &problem, const Units &units);

/// The goal's value of a sum of latencies and a longest interval.
int64_t stageValue(const StageProblem &problem, int64_t latency, int64_t interval);

struct SearchLimits {
  size_t labels = 1;                       // of a downset that are followed
  int64_t steps = 0;                       // elementary ones
  const std::atomic<bool> *stop = nullptr; // the search ends when it becomes true
  bool freePulled = false;                 // the sums are those without the memory of pulled nodes
};

struct SearchedStages {
  StagePlan plan;             // empty: none is below `best`
  int64_t value = 0;          // of the plan, or `best`
  int64_t lowerBound = 0;     // of all plans that cut the graph into these downsets
  int64_t steps = 0;          // that were done
  bool memoryIsShort = false; // a stage was refused or changed because of its memory
};

/// Looks for a plan whose value is below `best`. Requires a lattice of the units.
SearchedStages searchStages(const StageProblem &problem, const Units &units, const Downsets &lattice,
                            const StageWork &work, int64_t best, const SearchLimits &limits);

} // namespace tessera::strategies

#endif
