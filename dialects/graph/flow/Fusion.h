//===- Fusion.h - which operators share a loop, and what that keeps out of memory ---------------===//
//
// Fusion makes loops over points (graph.fused). The strategies must know before the pass runs which values will never
// be in memory, so all compute the loops here: the pass for the local program, the report for the program under the
// chosen strategies, the search for the global program.
//
// Operators of one iteration domain become one loop: producers with their consumers, and operators that read the same
// tensor (both sums of BatchNorm's backward pass in one loop), unless it is a single number and they wait for
// different loops. Loops do not cross sections (Sections.h). What recomputation makes again shares none with the
// forward half, which would keep it until then. Operators are visited in program order. Each joins the loops with
// which it shares whole tensors, if the graph of loops stays acyclic. This is the greedy algorithm of Kennedy and
// McKinley, "Maximizing loop parallelism and improving data locality via loop fusion and distribution" (1993). Loops
// keep a topological order, so that a test for cycles looks only at what lies between two loops.
//
//   relu: Points      reduce_sum: Reduction      broadcast: Free      matmul: None      transpose: None
//
//   y = relu(x); z = mul(y, s); r = reduce_sum(z)      one loop; y stays in it, and z if nothing else reads it
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_FUSION_H
#define TESSERA_DIALECTS_GRAPH_FLOW_FUSION_H

#include "dialects/graph/flow/DataFlow.h"

namespace tessera::graph {

/// What an operator becomes in a loop. The answer is the same on global and on local tensors.
LoopPart loopPart(mlir::Operation *op);

/// For every step the index of the first step of its loop. A step without a loop is its own first step. -1: the step is
/// Free.
std::vector<int> formLoops(const DataFlow &flow);

/// A program whose steps are loops, in dependence order. A Free step remains only if something other than a loop reads
/// its result.
struct LoopedFlow {
  LoopedFlow(const DataFlow &flow, llvm::ArrayRef<int> loops);

  DataFlow flow;                         // has the values of the program
  std::vector<std::vector<int>> members; // for each step of `flow` the steps of the program in it, ascending
  std::vector<int> stepOf;               // for each step of the program its step in `flow`; -1: Free and only in loops
  std::vector<bool> inMemory;            // for each value, whether it is written to memory
};

} // namespace tessera::graph

#endif
