//===- Decode.h - from orders to start times ------------------------------------------------------===//
//
// All schedulers use the decoder. Every resource takes its tasks in a given order, and each task starts as early as it
// can. If the next task only lacks memory, the first one behind it that fits overtakes it. So most orders give a
// schedule.
//
//   Decoder decoder(graph);
//   Orders orders = decoder.ordersOf(priorities);      // per resource, tasks of high priority first
//   if (decoder.run(orders))
//     decoder.start(), decoder.makespan()
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_DECODE_H
#define TESSERA_STRATEGIES_TIME_DECODE_H

#include "strategies/time/TaskGraph.h"

#include <utility>

namespace tessera::strategies {

/// The tasks of every resource, in order.
using Orders = std::vector<std::vector<int>>;

class MemoryAhead; // Decode.cpp

class Decoder {
public:
  /// The graph passes checkTaskGraph and outlives the decoder.
  explicit Decoder(const TaskGraph &graph);

  /// Runs the tasks in these orders. False: tasks wait for each other, or for memory that no task frees.
  bool run(const Orders &orders);
  /// Runs the tasks without an order. Of the tasks that can start, the one with the largest priority does. False: the
  /// tasks that have started leave too little memory.
  bool greedy(const std::vector<int64_t> &priorities);
  /// The same, but a task starts early only where the memory that it takes leaves enough for all others, one after the
  /// other in `order`. That has all tasks, each behind what it needs. False: it takes too much memory itself.
  bool cautious(const std::vector<int64_t> &priorities, const std::vector<int> &order);

  // The functions below speak of the last run, which must have succeeded.
  const StartTimes &start() const { return start_; }
  int64_t makespan() const { return makespan_; }
  /// The orders in which the tasks really started.
  Orders orders() const;
  /// A chain of tasks from the end of the schedule back to its start. Each of them waited for the one that follows here.
  const std::vector<int> &criticalChain();

private:
  struct PoolUse {
    int pool;
    int64_t bytes, reserved = 0;
  };

  void reset();
  void becomesReady(int task);
  bool fits(int task) const;
  bool isFree(int task) const;
  void begin(int task, int64_t time);
  void end(int task, int64_t time);
  template <typename Pick> bool events(Pick pick);

  const TaskGraph &graph_;
  // What the graph says, per task:
  std::vector<std::vector<Need>> later_;
  std::vector<std::vector<PoolUse>> taken_, made_; // at its start, at its end
  std::vector<std::vector<int>> uses_;             // buffers
  std::vector<int> users_;                         // per buffer
  Orders all_;                                     // per resource, in the order of the graph
  // The state of the run:
  StartTimes start_;
  int64_t makespan_ = 0;
  size_t done_ = 0;
  std::vector<int> open_, usersLeft_, cause_, lastOn_, lastFreed_;
  std::vector<int64_t> readyAt_, held_;
  std::vector<char> busy_, started_;
  std::vector<std::pair<int64_t, int>> queue_; // ends (task) and readiness (-1 - task), a heap
  std::vector<int> loose_;                     // tasks without resources that are ready
  Orders ready_;                               // per resource: tasks that are ready, and some that have started
  std::vector<int> chain_;
  MemoryAhead *ahead_ = nullptr; // of a cautious run
};

} // namespace tessera::strategies

#endif
