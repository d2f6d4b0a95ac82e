//===- Propagate.h - from tensor shardings to factors and back -----------------------------------===//
//
// An operator's strategy follows from what is known of its tensors. The axes that cut a dimension cut the dimension's
// factors, and a cut factor cuts every other tensor that has it. The algorithm is after Shardy's propagation
// (OpenXLA); but its unit is the sharding of a whole tensor, and it takes operators in a fixed order.
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

/// Gives the axes that cut one dimension of this extent to the dimension's factors, major to minor, as far as each can
/// be cut so that the dimension has the known blocks. Stops at an axis that no factor can take or that the strategy
/// uses already. Returns whether every axis found its factor.
bool assignDim(const OperatorClass &cls, const Mesh &mesh, llvm::ArrayRef<int> factors, const Cut &known,
               int64_t extent, Strategy &strategy);

/// The strategy that keeps the known shardings of operands and results (null: unknown) as far as the rule can.
/// Earlier tensors win. `order` lists them, the more important ones first: operand i as i, result i as i + number of
/// operands. If it is empty, operands come first. A partial operand is taken as if it were reduced.
Strategy strategyFrom(const OperatorClass &cls, const Mesh &mesh, llvm::ArrayRef<const Sharding *> operands,
                      llvm::ArrayRef<const Sharding *> results, llvm::ArrayRef<int> order = {});
/// Ranks add in the order of the mesh. So of what has leaves, no axis comes before a major one: the later ones of a cut
/// that followed from operands otherwise are left out.
void keepLeafOrder(const ShardingRule &rule, Strategy &strategy);

/// Lets the strategy reduce at once the results that its factors leave partial.
void reduceNow(const Mesh &mesh, const ShardingRule &rule, Strategy &strategy);

/// Number of blocks in which the strategy's factors cut the work.
int64_t workShards(const Mesh &mesh, const Strategy &strategy);

/// Shardings of values, and a strategy per operator.
struct Assignment {
  llvm::DenseMap<mlir::Value, Sharding> values; // as handed on by argument or producer
  std::vector<Strategy> strategies;             // by operator index

  const Sharding &of(mlir::Value value) const;
};

/// Fills `assignment` for the operators in `ops` (ascending), forward through the rules. `outside` gives the
/// shardings of values from outside as these operators see them (nullptr: unknown). Then an operator that was left
/// uncut (a constant, a broadcast) takes the sharding on which its users agree, if all of them are in `ops`. With
/// `sliceKnown` false, such an operator must read nothing that `outside` knows. Partial sums are reduced where they
/// arise, except those that an operator only adds up: that operator reduces once. Strategies of operators not in
/// `ops` are kept.
void propagate(const Program &program, const Mesh &mesh, llvm::ArrayRef<int> ops,
               const std::function<const Sharding *(mlir::Value)> &outside, Assignment &assignment,
               bool sliceKnown = true);

} // namespace tessera::strategies

#endif
