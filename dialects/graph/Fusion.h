//===- Fusion.h - which operators share a loop, and what that keeps out of memory ---------------===//
//
// Fusion makes loops over points (graph.fused). The strategies must know before it runs what it will keep out of
// memory, so both ask here: the pass about the local program, the report about the program as it is chosen, the search
// about the global program.
//
// Operators of one iteration domain become one loop: producers with their consumers, and siblings that read the same
// tensor (both sums of BatchNorm's backward pass in one pass). Operators are taken in program order; each joins the
// loops it exchanges whole tensors with, if the program stays acyclic with loops as nodes. Greedy, after Kennedy and
// McKinley, "Maximizing loop parallelism and improving data locality via loop fusion and distribution" (1993), with the
// acyclicity test on transitive predecessors.
//
//   relu: Points      reduce_sum: Reduction      broadcast: Free      matmul: None      transpose: None
//
//   y = relu(x); z = mul(y, s); r = reduce_sum(z)      one loop; y stays in it, and z if nothing else reads it
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FUSION_H
#define TESSERA_DIALECTS_GRAPH_FUSION_H

#include "dialects/graph/DataFlow.h"

namespace tessera::graph {

/// The same for an operator on global and on local tensors.
LoopPart loopPart(mlir::Operation *op);

/// By step: the loop that it is in, named by its first member; a step that shares none is its own. -1: it is free.
std::vector<int> formLoops(const DataFlow &flow);

/// A program with loops as steps, in their order by dependence. What is free stands where something besides loops reads
/// it.
struct LoopedFlow {
  LoopedFlow(const DataFlow &flow, llvm::ArrayRef<int> loops);

  DataFlow flow;                         // values are those of the program
  std::vector<std::vector<int>> members; // by step: steps of the program, ascending
  std::vector<int> stepOf;               // by step of the program; -1: it is free and only in loops
  std::vector<bool> inMemory;            // by value: it passes through memory
};

} // namespace tessera::graph

#endif
