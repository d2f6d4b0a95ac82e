//===- Paths.h - longest paths through a task graph -----------------------------------------------===//
//
// Precedence alone bounds how early a task can start, and how long everything takes from its start to the end.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_PATHS_H
#define TESSERA_STRATEGIES_TIME_PATHS_H

#include "strategies/time/TaskGraph.h"

namespace tessera::strategies {

struct Paths {
  std::vector<int> order;    // taskOrder(graph)
  std::vector<int64_t> head; // the earliest start
  std::vector<int64_t> tail; // from the start to the end of everything, at least
};

/// Requires a graph that passes checkTaskGraph.
Paths longestPaths(const TaskGraph &graph);

/// The least time from the start of `from` to the end of each task: negative for those that do not come behind it.
std::vector<int64_t> pathsFrom(const TaskGraph &graph, const Paths &paths, int from);

} // namespace tessera::strategies

#endif
