//===- Simulate.h - the judge of schedules --------------------------------------------------------===//
//
// Says of start times whether they keep every rule of the graph, and what they come to. It shares no code with the
// schedulers: every schedule passes through it.
//
//   Timeline line = simulate(graph, {0, 10, 10});
//   if (!line.error.empty())
//     fail(line.error); // "'next gradient' starts at 10, but 'gradient' holds 'rank 0' until 12"
//   line.makespan      // 40
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_SIMULATE_H
#define TESSERA_STRATEGIES_TIME_SIMULATE_H

#include "strategies/time/TaskGraph.h"

namespace tessera::strategies {

struct Timeline {
  std::string error; // the first rule that is broken; empty: none
  int64_t makespan = 0;
  std::vector<int64_t> busy; // per resource: how long it is held
  std::vector<int64_t> peak; // per pool: the most bytes at one time
};

/// Requires a graph that passes checkTaskGraph; the times may be anything.
Timeline simulate(const TaskGraph &graph, const StartTimes &start);

/// Of the time in which a task of `hidden` runs, how much lies outside of all tasks of `cover`: communication that no
/// kernel of the rank hides, for a link and the rank's processor.
int64_t exposed(const TaskGraph &graph, const StartTimes &start, int hidden, int cover);

} // namespace tessera::strategies

#endif
