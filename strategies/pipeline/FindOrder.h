//===- FindOrder.h - a good order for any pipeline ------------------------------------------------===//
//
// findOrder() takes the best of the orders with names, where they apply, and of many greedy runs. In a greedy run a
// device does an Input action that is ready, else a Forward action if memory allows. It fills gaps with Weight actions.
// The runs differ in how far a device may run ahead with Forward actions, in how much an action may delay what comes
// next, and in which goes first where several are ready (Qi et al., ICLR 2024, tell of such a heuristic). The best of
// them are then changed at random. Stages may be uneven and lie anywhere. Limits of memory are kept. The same pipeline
// gives the same order on every machine.
//
//   FoundOrder found = findOrder(pipeline, Goal::Makespan);
//   if (found.order.empty())
//     fail("no order was found that fits the memory");
//   found.run.makespan, found.lowerBound
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_FINDORDER_H
#define TESSERA_STRATEGIES_PIPELINE_FINDORDER_H

#include "strategies/pipeline/Pipeline.h"

namespace tessera::strategies {

/// Makespan: everybody waits for the last device after a step. LongestSpan: the next step begins on a device as soon as
/// it has done its own part, so that what counts is the device that takes longest from first to last.
enum class Goal { Makespan, LongestSpan };

struct FoundOrder {
  PipelineOrder order; // empty: none was found
  PipelineRun run;
  int64_t lowerBound = 0; // of the goal
};

/// Requires a pipeline that passes checkPipeline.
FoundOrder findOrder(const Pipeline &pipeline, Goal goal);

} // namespace tessera::strategies

#endif
