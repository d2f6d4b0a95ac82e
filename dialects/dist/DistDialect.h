//===- DistDialect.h - mesh, sharding and strategy as attributes -----------------------------===//
//
// The attributes hold the text forms (Text.h) of Mesh, Sharding and Strategy. Code works with these plain classes.
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
// In local programs (phase 5):
/// On function arguments and results: the global shape, an array of i64.
inline constexpr llvm::StringLiteral kGlobalShapeAttr = "dist.global_shape";
/// On an operator: an array with one dictionary per rank. It holds the kernel attributes that differ between ranks
/// (offsets of a block), which replace the operator's attributes of the same name.
inline constexpr llvm::StringLiteral kPerRankAttr = "dist.per_rank";
// In a pipeline:
/// On operators of a local program, before it is cut, the number of the stage (i64); on the modules that it becomes
/// their number, the place on the axis `stage`.
inline constexpr llvm::StringLiteral kStageAttr = "dist.stage";
/// On those modules: how many there are (i64). Their mesh is the rest of the mesh.
inline constexpr llvm::StringLiteral kStagesAttr = "dist.stages";
/// On a function of such a module: what runs, as pairs of a section's place and a micro-batch, an array of i64.
inline constexpr llvm::StringLiteral kCallsAttr = "dist.calls";

/// The module's mesh; one rank if it carries none.
Mesh getMesh(mlir::ModuleOp module);
void setMesh(mlir::ModuleOp module, const Mesh &mesh);

/// The operator's strategy; an error that names the operator if it carries none or a broken one.
llvm::Expected<Strategy> getStrategy(mlir::Operation *op, const ShardingRule &rule, const Mesh &mesh);
void setStrategy(mlir::Operation *op, const ShardingRule &rule, const Mesh &mesh, const Strategy &strategy);

} // namespace tessera::dist

#endif
