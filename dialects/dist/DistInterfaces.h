//===- DistInterfaces.h - operators that say how they are sharded ----------------------------===//
#ifndef TESSERA_DIALECTS_DIST_DISTINTERFACES_H
#define TESSERA_DIALECTS_DIST_DISTINTERFACES_H

#include "dialects/dist/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Operation.h"

namespace tessera::dist {

/// What `localize` and `rankAttributes` may use. Shapes are global. Shardings are the natural ones of the operator's
/// strategy, before the reshards of its results.
struct LocalizeContext {
  const Mesh &mesh;
  const ShardingRule &rule; // of the global operator
  const Strategy &strategy;
  llvm::SmallVector<Sharding> operands, results;
  llvm::SmallVector<Shape> operandShapes, resultShapes;

  /// First global index of `rank`'s block of a result's / an operand's dimension.
  int64_t resultOffset(int64_t rank, int result, int64_t dim) const;
  int64_t operandOffset(int64_t rank, int operand, int64_t dim) const;
  /// The number of elements that `rank` holds of an operand's dimension. The rest of its block is padding.
  int64_t operandExtent(int64_t rank, int operand, int64_t dim) const;
  /// The number of blocks into which the named factor of the rule is cut; 1 if the rule has no such factor.
  int64_t factorShards(llvm::StringRef factor) const;
};

/// Static shapes of operands / results that are ranked tensors.
llvm::SmallVector<Shape> operandShapes(mlir::Operation *op);
llvm::SmallVector<Shape> resultShapes(mlir::Operation *op);

/// The operator's rule: `text` bound to the operator's shapes and attributes. The text "custom" is an error, since such
/// an operator must override getShardingRule.
llvm::Expected<ShardingRule> buildRule(llvm::StringRef text, mlir::Operation *op);

} // namespace tessera::dist

#include "dialects/dist/DistInterfaces.h.inc"

#endif
