//===- LoopShares.h - what fusion saves each operator ----------------------------------------------===//
//
// A loop reads a tensor once, does not write what only its members read, and is one kernel. The search prices operators
// of many groups one by one, before it knows which reshards stand between them. So every operator is priced as if there
// were none, and a reshard costs what it takes away:
//
//   a = add(x, y)          reads x and y; starts the loop's kernel
//   b = mul(a, x)          `a` and `x` are at hand; `a` is not written if nothing else reads it
//   c = sub(w, b)          in another group: reads w only. If b is resharded, b is written and read, and a kernel
//                          starts
//
// A loop that several groups share is started by the first one. Every other group has one value whose reshard cuts it
// off. An operator at the head of a group counts as a kernel. If groups read the same tensor, each counts it.
//
// A group that was split (FollowGroups.h) has the shares that it had whole. If a value between two of its parts is
// resharded, its reader starts a kernel, once for each two parts.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_LOOPSHARES_H
#define TESSERA_STRATEGIES_GRAPH_LOOPSHARES_H

#include "strategies/cost/CostModel.h"
#include "strategies/graph/FollowGroups.h"

namespace tessera::strategies {

class LoopShares {
public:
  LoopShares(const Program &program, const FollowGroups &groups);

  /// The kernel time of one run of operator `op`. `isResharded` says which values are resharded between the operator
  /// that makes them and those that read them.
  Cost compute(const CostModel &model, int op, const Strategy &strategy,
               llvm::function_ref<bool(mlir::Value)> isResharded) const;
  /// Whether a reshard of the value changes the cost of an operator that makes or reads it.
  bool matters(mlir::Value value) const { return shared_.contains(value); }
  /// What the cost of an operator depends on beside its class.
  void appendKey(int op, std::vector<int64_t> &key) const;

private:
  struct Share {
    bool starts = true;                // the kernel
    llvm::SmallVector<bool, 4> atHand; // by operand
    llvm::SmallVector<bool, 4> link;   // by operand: its reshard cuts the group off from the loop
  };

  bool isHead(int op) const;
  bool isInLoop(int op) const;
  bool isUnwritten(mlir::Value value) const;
  void findShares();

  const Program &program_;
  const FollowGroups &groups_;
  std::vector<Share> shares_;                      // by operator
  llvm::DenseSet<mlir::Value> unwritten_, shared_; // looked up only
};

} // namespace tessera::strategies

#endif
