//===- Bound.h - how early everything can be done at best -----------------------------------------===//
//
// No schedule is shorter than any of these times. The bound is the largest of them:
//   - the longest path;
//   - per resource, the one-machine problem of its tasks, each with the least time before and behind it. Tasks may be
//     interrupted there (Jackson's preemptive schedule; Carlier, 1982);
//   - per pool and size, the time that the buffers of this size or more must live. If no two of them fit at once, it is
//     a one-machine problem again. If k fit at once, it is a k-th of the sum of their least lives.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_BOUND_H
#define TESSERA_STRATEGIES_TIME_BOUND_H

#include "strategies/time/Paths.h"

namespace tessera::strategies {

/// Requires a graph that passes checkTaskGraph.
int64_t lowerBound(const TaskGraph &graph);
/// The same, where raisedPaths() (RaisePaths.h) are known.
int64_t lowerBound(const TaskGraph &graph, const Paths &paths);

} // namespace tessera::strategies

#endif
