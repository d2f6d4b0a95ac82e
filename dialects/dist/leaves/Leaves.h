//===- Leaves.h - reproducible modules ---------------------------------------------------------===//
//
// The attribute `dist.leaves` of a module says how many leaves a summed factor has at most, a power of two
// (LeafRule.h). boundRule() then gives the rules of operators in the stricter form. Localisation makes the leaves. From
// then on the module carries `dist.made_leaves` instead, and operators have their own rules again.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_LEAVES_LEAVES_H
#define TESSERA_DIALECTS_DIST_LEAVES_LEAVES_H

#include "dialects/dist/ShardingRule.h"

#include "mlir/IR/BuiltinOps.h"

namespace tessera::dist {

/// On a reproducible module: the most leaves of a factor, an i64; before and after localisation.
inline constexpr llvm::StringLiteral kLeavesAttr = "dist.leaves", kMadeLeavesAttr = "dist.made_leaves";

/// The most leaves of a factor in the module around `op` (or `op` itself), in every phase; 0: it is not reproducible.
int64_t leavesOf(mlir::Operation *op);
void setLeaves(mlir::ModuleOp module, int64_t leaves);
/// Says that operators have been replaced by those of their leaves.
void setLeavesMade(mlir::ModuleOp module);

/// The rule of an operator as its module has it. Phases 3 to 5 use this one.
llvm::Expected<ShardingRule> boundRule(mlir::Operation *op);

} // namespace tessera::dist

#endif
