//===- Order.h - the order of execution, and what lives when -------------------------------------===//
//
// The order of execution is the program's own order, with one exception: a step that frees at least as much memory as
// it allocates runs as soon as it can. So a parameter is updated when its gradient is ready, and the gradient's memory
// is free again. Sections (Sections.h) come one after the other. The plan orders the local program by it, the report
// the program under the chosen strategies, and the search the global program.
//
//   std::vector<int> order = executionOrder(flow);
//   lifetimes(flow, order)[v]          // {first, last}, in positions of the order
//   peak(flow, order).bytes            // the most that lives at once, beside what is kept
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_ORDER_H
#define TESSERA_DIALECTS_GRAPH_FLOW_ORDER_H

#include "dialects/graph/flow/DataFlow.h"
#include "dialects/graph/flow/MemoryLoad.h"

namespace tessera::graph {

/// The attribute of an operator that says when it runs, in place of the order above: operators run by turn, and those
/// of equal turns as they stand. Who has none runs with the first that reads what it makes.
inline constexpr llvm::StringLiteral kTurnAttr = "graph.turn";

/// The steps in the program's order, except that each comes after the steps that make what it reads. Steps of a cycle,
/// and those that depend on one, are missing.
std::vector<int> dependenceOrder(const DataFlow &flow);
/// The same, but of the steps that could run next, one that frees at least as much memory as it allocates comes first.
std::vector<int> executionOrder(const DataFlow &flow);
/// The steps by section and turn, except that each comes after the steps that make what it reads. `turns`: by step; -1:
/// it has none.
std::vector<int> orderByTurns(const DataFlow &flow, std::vector<int64_t> turns);
/// The steps of `flow` in another order.
DataFlow reordered(DataFlow flow, llvm::ArrayRef<int> order);

/// The first and last position in the order at which a value is live, both included. `first` is 0 for a value that
/// exists from the start. `last` is the number of steps for a value that is read at the end.
struct Lifetime {
  int64_t first = 0, last = -1;
};
/// For every value its lifetime. It lasts until the value or a view of it is read for the last time. What the body
/// reads and does not make lives until the body's end, and a sum over micro-batches lives from its start on. A view has
/// no lifetime of its own, and neither has a value that no step makes or reads.
std::vector<Lifetime> lifetimes(const DataFlow &flow, llvm::ArrayRef<int> order);
/// What lives when, without values that are kept.
MemoryLoad memoryLoad(const DataFlow &flow, llvm::ArrayRef<Lifetime> lives);
/// The most of that at once.
MemoryLoad::Peak peak(const DataFlow &flow, llvm::ArrayRef<int> order);

} // namespace tessera::graph

#endif
