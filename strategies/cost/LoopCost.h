//===- LoopCost.h - what kernels cost as fusion leaves them ---------------------------------------===//
//
// A loop is one kernel: the work of its members over the bytes that the loop reads and writes. The members share its
// time as they would need it alone, so that every operator of a report has its part and the parts sum up to the loop.
//
//   std::vector<Cost> costs = loopCosts(model, flow, looped, kernels);      // by step of flow
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_LOOPCOST_H
#define TESSERA_STRATEGIES_COST_LOOPCOST_H

#include "dialects/graph/Fusion.h"
#include "strategies/cost/CostModel.h"

namespace tessera::strategies {

/// What a step computes; null: it is a collective, which has its own price.
struct StepKernel {
  const OperatorClass *cls = nullptr;
  const Strategy *strategy = nullptr;
};

/// By step of `program`, whose values have the bytes of one rank; `looped` is made of it. A free step that stands in no
/// memory costs nothing.
std::vector<Cost> loopCosts(const CostModel &model, const graph::DataFlow &program, const graph::LoopedFlow &looped,
                            llvm::ArrayRef<StepKernel> kernels);

} // namespace tessera::strategies

#endif
