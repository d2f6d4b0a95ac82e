//===- RaisePaths.h - heads and tails that know of resources ----------------------------------------===//
//
// A task starts when all that it needs has ended, directly or not. What of that holds one resource comes one after the
// other there. So a task starts no sooner than these tasks take together, counted from where the first of them can
// start, and with the least time from the last one to the task. The same holds of all that comes behind it. The longest
// path has of them only those that wait for each other.
//
//   Paths paths = longestPaths(graph);
//   raisePaths(graph, paths);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_RAISEPATHS_H
#define TESSERA_STRATEGIES_TIME_RAISEPATHS_H

#include "strategies/time/Paths.h"

namespace tessera::strategies {

/// Raises heads and tails; each still holds in every schedule. Takes some tens of millions of steps at most: a graph
/// that needs more keeps its paths. (13,000 tasks with three needs each take 10 million a pass.)
void raisePaths(const TaskGraph &graph, Paths &paths);
/// The longest paths, raised.
Paths raisedPaths(const TaskGraph &graph);

} // namespace tessera::strategies

#endif
