//===- FollowGroups.h - operators that follow another's strategy ---------------------------------===//
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
// An operator that adds up sums which may still be owed, and whose work does not grow with the batch, is a head: it can
// hand them on owed, or pay once for all of them, into a cut. So the gradients of several micro-batches, or of several
// uses of a parameter, are a chain of such heads. Who may owe, and what is linear, is read off the rules.
//
//   grad0 = matmul, grad1 = matmul, sum = add(grad0, grad1)      three groups
//
// Operators that read no tensor of more than one element (constants, random numbers) belong to no
// group: every rank makes the part that is wanted, for nothing.
//
//   conv -> mul -> add(skip) -> relu -> conv     two groups: {conv, mul, add, relu} and {conv}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_FOLLOWGROUPS_H
#define TESSERA_STRATEGIES_GRAPH_FOLLOWGROUPS_H

#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

struct FollowGroup {
  int arg = -1;                  // head, if it is an argument
  llvm::SmallVector<int> ops;    // ascending; the first is the head unless `arg` is
  llvm::SmallVector<int> follow; // per op: the operand it follows; -1: the head
};

struct FollowGroups {
  std::vector<FollowGroup> list;
  std::vector<int> ofOp, ofArg; // -1: none (a source)
  /// By operator: its one reader adds up sums, or hands on to one that does. So it may be owed as well there.
  std::vector<bool> readBySum;

  /// FollowGroup that holds the value; -1: made by a source.
  int of(const Program &program, mlir::Value value) const;
  /// Whether fusion keeps the value out of memory for the group: all that read it are of the group.
  bool staysInLoop(const Program &program, int group, mlir::Value value) const;
};

/// `isFixed[i]`: the user fixed the operator's strategy, so it is the head of a group.
FollowGroups formFollowGroups(const FunctionAssignment &function, const BatchDependence &batch,
                              llvm::ArrayRef<bool> isFixed);

/// Whether the operator makes its results from nothing that could be cut.
bool isSource(const OperatorClass &cls);

} // namespace tessera::strategies

#endif
