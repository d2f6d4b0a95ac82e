//===- FollowGroups.h - operators that follow another's strategy ---------------------------------===//
//
// Most operators of a network have no choice worth searching: a pointwise operator behind a convolution is cut as the
// convolution's result is. Such an operator follows one of its operands. A head is an operator with a choice of its
// own, or a function argument. A head and all operators that follow it are one node of the StrategyGraph.
//
// An operator may follow an operand that has every factor of the operator. If the operator reduces, its results must
// also be small beside that operand. The rule tells this; no operator is named. Of several such operands the largest is
// followed. Among equals one of a group whose head is a parameter or state is followed, so that an update lies as what
// it updates, and then the one whose head comes last.
//
// An operator is a head, too, if it adds up sums that may be partial and its work does not grow with the batch. It can
// hand the total on partial, or reduce it once, whole or into a cut. So the gradients of several uses of a parameter
// are a chain of such heads, and what adds up over micro-batches is one. The rules tell which results may be partial,
// and in which operands an operator is linear.
//
//   grad0 = matmul, grad1 = matmul, sum = add(grad0, grad1)      three groups
//
// A source reads no tensor of more than one element; constants and random numbers are sources. It belongs to no group:
// every rank makes the part that is wanted, at no cost.
//
//   conv -> mul -> add(skip) -> relu -> conv     two groups: {conv, mul, add, relu} and {conv}
//
// A follower may be cheaper otherwise than it is handed its operand: cut where that is whole, or as another operand is.
// So groups can be split into kernels, each with a choice of its own (docs/adr/0023-split-groups.md).
//
//   conv -> [mul -> add(skip) -> relu] -> conv     a loop; split, {conv}, {mul, add, relu} and {conv}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_FOLLOWGROUPS_H
#define TESSERA_STRATEGIES_GRAPH_FOLLOWGROUPS_H

#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

struct FollowGroup {
  int arg = -1;                  // the head, if it is an argument; -1: the head is an operator
  llvm::SmallVector<int> ops;    // ascending; the first is the head unless `arg` is
  llvm::SmallVector<int> follow; // per op: the operand that it follows; -1: it is the head
};

struct FollowGroups {
  std::vector<FollowGroup> list;
  std::vector<int> ofOp, ofArg; // indices into `list`; -1: no group, since it is a source
  /// By operator: its only reader is a head that adds up sums, or hands the value on to such a head. So the head, and
  /// not the operator, may reduce the value.
  std::vector<bool> readBySum;
  /// By operator: it heads a group since a group was split. It is priced within its loop, as a follower is.
  std::vector<bool> released;
  /// By operator: its group before it was split. Members of that share loops (LoopShares.h).
  std::vector<int> whole;

  /// The group that holds the value; -1: a source makes it.
  int of(const Program &program, mlir::Value value) const;
};

/// `isFixed[i]`: the user fixed the operator's strategy, so it is the head of a group.
FollowGroups formFollowGroups(const FunctionAssignment &function, const BatchDependence &batch,
                              llvm::ArrayRef<bool> isFixed);

/// The same groups, split: a follower that is a kernel of its own heads a group, and so does the first one of what a
/// group has of a loop. The rest of a loop is cut as that is. What updates the argument at the head of a group stays
/// with it, and so does a view of a copy that a group keeps: so an assignment takes the same memory in both.
FollowGroups splitFollowGroups(const FunctionAssignment &function, const BatchDependence &batch,
                               llvm::ArrayRef<bool> isFixed, const FollowGroups &whole);

/// Whether the operator makes its results from nothing that could be cut.
bool isSource(const OperatorClass &cls);

} // namespace tessera::strategies

#endif
