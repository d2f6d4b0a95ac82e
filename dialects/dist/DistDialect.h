//===- DistDialect.h - mesh, sharding and strategy as attributes -----------------------------===//
//
// The attributes hold the text forms of Mesh, Sharding and Strategy (Mesh.h, Sharding.h,
// ShardingRule.h); the plain classes are what code works with.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_DISTDIALECT_H
#define TESSERA_DIALECTS_DIST_DISTDIALECT_H

#include "dialects/dist/DistInterfaces.h"
#include "dialects/dist/Text.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"

#include "dialects/dist/DistDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"

namespace tessera::dist {

// Names of the discardable attributes.
inline constexpr llvm::StringLiteral kMeshAttr = "dist.mesh";         // on the module
inline constexpr llvm::StringLiteral kStrategyAttr = "dist.strategy"; // on operators
inline constexpr llvm::StringLiteral kShardingAttr = "dist.sharding"; // on function arguments and results
// Of a local program (phase 5):
/// On function arguments and results: the whole tensor's shape, an array of i64.
inline constexpr llvm::StringLiteral kGlobalShapeAttr = "dist.global_shape";
/// On an operator: an array with one dictionary per rank, attributes of the kernel that differ
/// between ranks (offsets of a shard); they replace those of equal name.
inline constexpr llvm::StringLiteral kPerRankAttr = "dist.per_rank";

/// The module's mesh; one rank if it carries none.
Mesh getMesh(mlir::ModuleOp module);
void setMesh(mlir::ModuleOp module, const Mesh &mesh);

/// The operator's strategy; an error that names the operator if it carries none or a broken one.
llvm::Expected<Strategy> getStrategy(mlir::Operation *op, const ShardingRule &rule, const Mesh &mesh);
void setStrategy(mlir::Operation *op, const ShardingRule &rule, const Mesh &mesh, const Strategy &strategy);

} // namespace tessera::dist

#endif
