//===- Clusters.h - operators that follow another's strategy -------------------------------------===//
//
// Most operators of a network have no choice worth searching: what comes after a convolution point by
// point lies as the convolution's result does. Such an operator follows one of its operands; a head (an
// operator with a choice of its own, or a function argument) with all that follow it is one node of the
// StrategyGraph.
//
// An operator follows an operand that has every factor of its results, if what it reduces besides is small
// beside that operand. This is read off the rule; no operator is named. Of several such operands the largest is
// followed, then one that belongs to a parameter or state (so that an update lies as what it updates),
// then the one whose head comes last.
//
// Operators that read no tensor of more than one element (constants, random numbers) belong to no
// cluster: every rank makes the part that is wanted, for nothing.
//
//   conv -> mul -> add(skip) -> relu -> conv     two clusters: {conv, mul, add, relu} and {conv}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_ASSIGN_CLUSTERS_H
#define TESSERA_STRATEGIES_ASSIGN_CLUSTERS_H

#include "strategies/assign/FunctionPlan.h"

namespace tessera::strategies {

struct Cluster {
  int arg = -1;                  // head, if it is an argument
  llvm::SmallVector<int> ops;    // ascending; the first is the head unless `arg` is
  llvm::SmallVector<int> follow; // per op: the operand it follows; -1: the head
};

struct Clusters {
  std::vector<Cluster> list;
  std::vector<int> ofOp, ofArg; // -1: none (a source)

  /// Cluster that holds the value; -1: made by a source.
  int of(const Program &program, mlir::Value value) const;
};

/// `isHead[i]`: the operator must be the head of a cluster (the user fixed its strategy).
Clusters formClusters(const FunctionPlan &plan, llvm::ArrayRef<bool> isHead);

/// Whether the operator makes its results from nothing that could be cut.
bool isSource(const OperatorClass &cls);

} // namespace tessera::strategies

#endif
