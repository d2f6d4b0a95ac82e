//===- Totals.h - a program's time, bytes and memory as three parts of the compiler state them -----===//
//
// The search sums its graph, the report prices the annotated program, and the plan's layout says what is emitted. Times
// are in nanoseconds on one rank, bytes and memory are one rank's.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_STRATEGIES_TOTALS_H
#define TESSERA_TEST_UNIT_STRATEGIES_TOTALS_H

#include "strategies/graph/BuildGraph.h"

namespace tessera::strategies {

struct Totals {
  double kernels = 0, communication = 0;
  double bytes = 0;  // sent
  double memory = 0; // at the peak
};

/// The sums of the graph. `bytes` is 0, since the search does not count them. The graph must have usages.
Totals searched(const BuiltGraph &built, const Choice &choice);

/// Writes the choice into the function and prices it.
Totals reported(FunctionAssignment &plan, const BuiltGraph &built, const Choice &choice, const CostModel &model);

/// Partitions a copy of the annotated module, lays it out and prices every step of its one program with the same model:
/// a fused loop as one kernel over what it reads and writes, memory as what buffers cover at once, without rounding up.
Totals emitted(mlir::ModuleOp annotated, const CostModel &model);

} // namespace tessera::strategies

#endif
