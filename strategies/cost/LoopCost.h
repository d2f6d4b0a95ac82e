//===- LoopCost.h - what kernels cost as fusion leaves them ---------------------------------------===//
//
// A loop is one kernel: the work of its members, and of the free operators that it computes for itself (a widening
// cast, what is repeated), over the bytes that the loop reads and writes. Its time is divided among the members in
// proportion to what each would take alone, so that every operator of a report has a part and the parts add up to the
// loop.
//
//   std::vector<Cost> costs = loopCosts(model, flow, looped, kernels);      // by step of flow
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_LOOPCOST_H
#define TESSERA_STRATEGIES_COST_LOOPCOST_H

#include "dialects/graph/flow/Fusion.h"
#include "strategies/cost/CostModel.h"

namespace tessera::strategies {

/// The operator behind a step. Null for a collective, which has a price of its own.
struct StepKernel {
  const OperatorClass *cls = nullptr;
  const Strategy *strategy = nullptr;
};

/// The cost of every step of `program` when it runs once. Values are one rank's. `looped` is made of `program`. A step
/// that computes nothing and is not in memory costs nothing.
std::vector<Cost> loopCosts(const CostModel &model, const graph::DataFlow &program, const graph::LoopedFlow &looped,
                            llvm::ArrayRef<StepKernel> kernels);

} // namespace tessera::strategies

#endif
