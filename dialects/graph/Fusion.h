//===- Fusion.h - which operators share a loop, and what that keeps out of memory --------------===//
//
// Fusion makes loops over points (graph.fused). The strategies must know before it runs what it will keep out of
// memory, so both ask here.
//
//   loopPart       what an operator of a local program becomes in a loop: compiler/partition/Fuse asks this.
//   streams,       what its sharding rule says about that: the strategies ask this, once per class of operators.
//   mayEndLoop     Every operator that has a part in a loop streams, or ends one, by its rule.
//
// The rule promises more than loops hold today. A transpose only moves points and streams by its rule, but it has a
// kernel of its own.
//
//   relu: Points      reduce_sum: Reduction      broadcast: Free      matmul: None      transpose: None, but streams
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FUSION_H
#define TESSERA_DIALECTS_GRAPH_FUSION_H

#include "dialects/dist/ShardingRule.h"

#include "mlir/IR/Operation.h"

namespace tessera::graph {

enum class LoopPart {
  None,      // a kernel of its own
  Points,    // computes each point of its result from the same point of its operands
  Reduction, // combines points, and ends the loop: nothing in the same loop may read what it gives
  Free,      // a splat, or hands its operand on (stretches, widens): every loop that reads it has its own
};
LoopPart loopPart(mlir::Operation *op);

/// Every point of the results depends on one point of each operand: nothing is reduced, no window slides.
bool streams(const dist::ShardingRule &rule);
/// Streams, or reduces its only operand: it may read what a streaming operator computes without that being written.
bool mayEndLoop(const dist::ShardingRule &rule);

} // namespace tessera::graph

#endif
