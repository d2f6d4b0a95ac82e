//===- ShardedOp.h - an operator with its rule, strategy and the shardings that follow --------===//
#ifndef TESSERA_COMPILER_PARTITION_SHARDEDOP_H
#define TESSERA_COMPILER_PARTITION_SHARDEDOP_H

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistInterfaces.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace tessera::compiler {

/// An operator with its rule and strategy. It is valid only while the operator has its global types.
struct ShardedOp {
  dist::ShardingRuleOpInterface op;
  dist::ShardingRule rule;
  dist::Strategy strategy;
  dist::Mesh mesh;

  /// Reads and checks rule and strategy; emits an error at the operator and returns nullopt if
  /// anything is wrong with them.
  static std::optional<ShardedOp> get(mlir::Operation *op, const dist::Mesh &mesh);

  dist::Sharding operand(int i) const { return dist::operandSharding(mesh, rule, strategy, i); }
  dist::Sharding natural(int i) const { return dist::naturalResult(mesh, rule, strategy, i); }
};

/// dist.sharding of a function's argument or result. Emits an error at the function and returns
/// nullopt if it is missing or wrong.
std::optional<dist::Sharding> argSharding(mlir::func::FuncOp func, unsigned arg, const dist::Mesh &mesh);
std::optional<dist::Sharding> resultSharding(mlir::func::FuncOp func, unsigned result, const dist::Mesh &mesh);

dist::Shape tensorShape(mlir::Value value);

} // namespace tessera::compiler

#endif
