//===- Propagate.h - from tensor shardings to factors and back -----------------------------------===//
//
// An operator's strategy follows from what is known of its tensors: the axes that cut a dimension cut the
// dimension's factors, and a cut factor cuts every other tensor that has it. After Shardy's propagation
// (OpenXLA), with the shardings of a whole tensor as the unit and operators taken in a fixed order.
//
//   "... m k, ... k n -> ... m n | sum k" with operand 0 known as "[data, model]":
//   strategyFrom(...) = m=data, k=model; the result is "[data, -] sum(model)".
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_PROPAGATE_H
#define TESSERA_STRATEGIES_SPACE_PROPAGATE_H

#include "strategies/space/Program.h"

#include <functional>

namespace tessera::strategies {

/// Hands the axes that cut one dimension to the dimension's factors, major to minor, as far as each
/// can be cut; skips axes that the strategy uses already. Returns whether every axis found its
/// factor.
bool assignDim(const OperatorClass &cls, const Mesh &mesh, llvm::ArrayRef<int> factors, llvm::ArrayRef<int> axes,
               Strategy &strategy);

/// The strategy that keeps what is known of operands and results (null: unknown) as far as the rule
/// can. Earlier tensors win; callers order them by passing the more important ones first in `order`
/// (indices of operands, then results + number of operands; empty: operands, then results). What is
/// owed on an operand is taken for paid.
Strategy strategyFrom(const OperatorClass &cls, const Mesh &mesh, llvm::ArrayRef<const Sharding *> operands,
                      llvm::ArrayRef<const Sharding *> results, llvm::ArrayRef<int> order = {});

/// Results that the factors leave partial are handed on reduced.
void reduceNow(const ShardingRule &rule, Strategy &strategy);

/// Number of blocks in which the strategy's factors cut the work.
int64_t workShards(const Mesh &mesh, const Strategy &strategy);

/// Shardings of values, and a strategy per operator.
struct Assignment {
  llvm::DenseMap<mlir::Value, Sharding> values; // as handed on by argument or producer
  std::vector<Strategy> strategies;             // by operator index

  const Sharding &of(mlir::Value value) const;
};

/// Fills `assignment` for the operators in `ops` (ascending) from the shardings of values from outside
/// (`outside`: as this group sees the value; nullptr: unknown), forward through the rules, and then gives
/// operators that were left uncut (constants, broadcasts) the sharding on which all of their users, if all
/// are in `ops`, agree. With `sliceKnown` false, such an operator must read nothing that `outside` knows.
/// Reductions are paid where they arise. Strategies of operators not in `ops` are kept.
void propagate(const Program &program, const Mesh &mesh, llvm::ArrayRef<int> ops,
               const std::function<const Sharding *(mlir::Value)> &outside, Assignment &assignment,
               bool sliceKnown = true);

} // namespace tessera::strategies

#endif
