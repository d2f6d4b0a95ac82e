//===- DistInterfaces.h - operators that say how they are sharded ----------------------------===//
#ifndef TESSERA_DIALECTS_DIST_DISTINTERFACES_H
#define TESSERA_DIALECTS_DIST_DISTINTERFACES_H

#include "dialects/dist/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Operation.h"

namespace tessera::dist {

/// What `localize` and `rankAttributes` may know. Shapes are global; shardings are those of the
/// operator's strategy (natural, before any reshard of its own).
struct LocalizeContext {
  const Mesh &mesh;
  const ShardingRule &rule; // of the global operator
  const Strategy &strategy;
  llvm::SmallVector<Sharding> operands, results;
  llvm::SmallVector<Shape> operandShapes, resultShapes;

  /// First global index of `rank`'s block of a result's / an operand's dimension.
  int64_t resultOffset(int64_t rank, int result, int64_t dim) const;
  int64_t operandOffset(int64_t rank, int operand, int64_t dim) const;
  /// How many elements of an operand's dimension `rank` holds; the rest of its block is padding.
  int64_t operandExtent(int64_t rank, int operand, int64_t dim) const;
  /// Into how many blocks the named factor of the rule is cut; 1 if the rule has none.
  int64_t factorShards(llvm::StringRef factor) const;
};

/// Static shapes of operands / results that are ranked tensors.
llvm::SmallVector<Shape> operandShapes(mlir::Operation *op);
llvm::SmallVector<Shape> resultShapes(mlir::Operation *op);

/// The operator's rule from its text form, bound to its shapes. "custom" is an error: such an
/// operator overrides getShardingRule.
llvm::Expected<ShardingRule> buildRule(llvm::StringRef text, mlir::Operation *op);

} // namespace tessera::dist

#include "dialects/dist/DistInterfaces.h.inc"

#endif
