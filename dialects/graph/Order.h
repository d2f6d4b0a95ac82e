//===- Order.h - the order of execution, and what lives when -------------------------------------===//
//
// The program's own order, except that what makes no more memory live than it frees runs as soon as it can: a parameter
// is updated when its gradient is there, and the gradient's memory is free again. The plan's order is computed here
// from the local program, the report's from the program as it is chosen, and the search's from the global program.
//
//   std::vector<int> order = executionOrder(flow);
//   lifetimes(flow, order)[v]          // {first, last}, in positions of the order
//   peak(flow, order).bytes            // the most that lives at once, beside what is kept
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_ORDER_H
#define TESSERA_DIALECTS_GRAPH_ORDER_H

#include "dialects/graph/DataFlow.h"
#include "dialects/graph/MemoryLoad.h"

namespace tessera::graph {

/// Steps, each behind those that make what it reads, otherwise as they stand. Fewer than all if there is a cycle.
std::vector<int> dependenceOrder(const DataFlow &flow);
/// The same, but of the steps that could run next the first that makes no more live than it frees goes first.
std::vector<int> executionOrder(const DataFlow &flow);
/// The steps of `flow` in another order.
DataFlow reordered(const DataFlow &flow, llvm::ArrayRef<int> order);

/// Positions in the order, both included: from 0 for what is there from the start, to the number of steps for what is
/// read at the end.
struct Lifetime {
  int64_t first = 0, last = -1;
};
/// By value. A value lives as long as it or a view of it is read; views have none of their own, nor has what no step
/// makes or reads.
std::vector<Lifetime> lifetimes(const DataFlow &flow, llvm::ArrayRef<int> order);
/// Of what is not kept.
MemoryLoad::Peak peak(const DataFlow &flow, llvm::ArrayRef<int> order);

} // namespace tessera::graph

#endif
