//===- TaskGraph.h - when things happen, as plain numbers -----------------------------------------===//
//
// A StrategyGraph is about where things are computed, and a TaskGraph about when. It has tasks of known duration, the
// resources that they hold, the tasks that they need, and the memory that they take. It knows no operator, tensor or
// plan. The example has two kernels, a collective beside the second, and a buffer between them:
//
//   TaskGraph graph;
//   graph.resources = {"rank 0", "link"};
//   graph.pools = {{"rank 0", 64}};
//   graph.tasks = {{"gradient", 10, {0}, {}}, {"all-reduce", 30, {1}, {{0}}}, {"next gradient", 10, {0}, {}}};
//   graph.buffers = {{/*pool=*/0, /*bytes=*/16, /*maker=*/0, /*fromEnd=*/false, /*users=*/{1}}};
//
// Times are whole numbers; the unit is the caller's. A task that has begun is not interrupted.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_TASKGRAPH_H
#define TESSERA_STRATEGIES_TIME_TASKGRAPH_H

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::strategies {

/// A task that must have ended at least `lag` before the task that needs it starts.
struct Need {
  int task = 0;
  int64_t lag = 0;
};

struct Task {
  std::string name;
  int64_t duration = 0;
  std::vector<int> resources; // held from start to end; each holds one task at a time
  std::vector<Need> needs;
};

/// A rank's memory.
struct MemoryPool {
  std::string name;
  int64_t limit = -1; // bytes; negative: none
};

/// Memory of a pool from the start of `maker` (or from its end) to the end of the last of `users`. At one instant,
/// memory is freed before it is taken.
struct TaskBuffer {
  int pool = 0;
  int64_t bytes = 0;
  int maker = 0;
  bool fromEnd = false;
  std::vector<int> users; // each needs the maker; none: to the end of `maker`
};

struct TaskGraph {
  std::vector<std::string> resources;
  std::vector<MemoryPool> pools;
  std::vector<Task> tasks;
  std::vector<TaskBuffer> buffers;
};

/// When every task starts.
using StartTimes = std::vector<int64_t>;

/// Empty if the graph is well formed, else one sentence about what is wrong. Checked are indices, signs, tasks that
/// need themselves, sums that would overflow, tasks whose own buffers exceed a pool, and users of a buffer that do
/// not need its maker.
std::string checkTaskGraph(const TaskGraph &graph);

/// The tasks in an order in which each comes behind all that it needs. Of those that could come next, the first one
/// in the graph does. Tasks in a circle are left out.
std::vector<int> taskOrder(const TaskGraph &graph);

} // namespace tessera::strategies

#endif
