//===- Simulate.h - the judge of schedules --------------------------------------------------------===//
//
// simulate() checks that start times keep every rule of the graph, and tells their makespan and memory. It shares no
// code with the schedulers. Every schedule passes through it.
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

/// Requires a graph that passes checkTaskGraph. The times may be any numbers.
Timeline simulate(const TaskGraph &graph, const StartTimes &start);

/// The time in which a task of the resource `hidden` runs and none of `cover` does. With a link and a rank's
/// processor it is the communication that no kernel of the rank hides.
int64_t exposed(const TaskGraph &graph, const StartTimes &start, int hidden, int cover);

} // namespace tessera::strategies

#endif
