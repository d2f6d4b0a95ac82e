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

  /// FollowGroup that holds the value; -1: made by a source.
  int of(const Program &program, mlir::Value value) const;
  /// Whether fusion keeps the value out of memory for the group: all that read it are of the group.
  bool staysInLoop(const Program &program, int group, mlir::Value value) const;
};

/// `isHead[i]`: the operator must be the head of a group (the user fixed its strategy).
FollowGroups formFollowGroups(const FunctionAssignment &function, llvm::ArrayRef<bool> isHead);

/// Whether the operator makes its results from nothing that could be cut.
bool isSource(const OperatorClass &cls);

} // namespace tessera::strategies

#endif
