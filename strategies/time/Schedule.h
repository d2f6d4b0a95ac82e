//===- Schedule.h - start times for a task graph --------------------------------------------------===//
//
// schedule() runs the schedulers in turn: the order of the graph, lists by several priorities, and then annealing of
// the best. It ends when the bound is reached or the work is done. Every scheduler has its own file. Without a limit
// of seconds, the same options give the same schedule on every machine.
//
//   Schedule s = schedule(graph, {.work = 1.0});
//   if (s.start.empty())
//     fail("nothing was found that fits the memory");
//   s.makespan, s.lowerBound       // equal: proven to be the best
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_SCHEDULE_H
#define TESSERA_STRATEGIES_TIME_SCHEDULE_H

#include "strategies/time/Decode.h"

#include <atomic>

namespace tessera::strategies {

struct ScheduleOptions {
  double work = 1;      // in 1e9 elementary steps, which take roughly as many seconds
  double seconds = 1e9; // of the clock, at most
  uint64_t seed = 1;
  const std::atomic<bool> *stop = nullptr; // the search ends when it becomes true
};

struct Schedule {
  StartTimes start; // empty: none was found
  int64_t makespan = 0, lowerBound = 0;
  int64_t given = -1; // the makespan in the order of the graph; negative: that order has none
  bool optimal() const { return !start.empty() && makespan == lowerBound; }
};

/// Requires a graph that passes checkTaskGraph.
Schedule schedule(const TaskGraph &graph, const ScheduleOptions &options = {});

/// Keeps the better of the decoder's last run and `best`.
void keepBetter(const Decoder &decoder, Schedule &best);

/// Lets tasks start as early as they can, in the order of the graph and by priorities. The priorities are the order
/// of the graph, the longest path to the end, and that path with tasks that free memory first. If nothing fits,
/// random orders are tried.
void scheduleByLists(const TaskGraph &graph, Decoder &decoder, Schedule &best);

/// Orders in which each task, those of high priority first and behind what it needs, has the first gap that is long
/// enough for it. So what takes long does not begin just before something more urgent wants the same resource. Any
/// memory will do.
Orders insertedOrders(const TaskGraph &graph, const std::vector<int64_t> &priorities);

/// Simulated annealing over the orders of the best schedule so far: tasks of the critical chain, and others, move on
/// their resources. It takes `steps` elementary steps.
void scheduleByAnnealing(const TaskGraph &graph, Decoder &decoder, const ScheduleOptions &options, double steps,
                         Schedule &best);

} // namespace tessera::strategies

#endif
