//===- Bound.h - how early everything can be done at best -----------------------------------------===//
//
// A number that no schedule can be below, the largest of
//   - the longest path;
//   - per resource, the one-machine problem of its tasks, each with the least time before and behind it, solved with
//     interruptions (Jackson's preemptive schedule; Carlier, 1982);
//   - per pool and size, the time that the buffers of this size or more must live: of those of which no two fit at once
//     again a one-machine problem; of those of which k fit, a k-th of the sum of their least lives.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_BOUND_H
#define TESSERA_STRATEGIES_TIME_BOUND_H

#include "strategies/time/TaskGraph.h"

namespace tessera::strategies {

/// Requires a graph that passes checkTaskGraph.
int64_t lowerBound(const TaskGraph &graph);

} // namespace tessera::strategies

#endif
