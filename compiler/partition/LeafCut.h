//===- LeafCut.h - an operator's operands and results, leaf by leaf -----------------------------===//
//
// How Localize replaces an operator with leaves (dialects/dist/leaves/LeafRule.h): it slices the operands, makes one
// operator per leaf, and joins their results.
//
//   dw = matmul(x, dy) with 4 leaves of 2 rows   ->   x0 = slice x, ... dw0 = matmul(x0, dy0), ...,
//                                                     dw = add(add(dw0, dw1), add(dw2, dw3))
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_LEAFCUT_H
#define TESSERA_COMPILER_PARTITION_LEAFCUT_H

#include "dialects/dist/leaves/LeafRule.h"

#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Leaf `leaf` of a rank's block `value`. `part` says how leaves and ranks cut the whole.
mlir::Value leafOperand(mlir::OpBuilder &builder, mlir::Value value, const dist::LeafCut &cut,
                        const dist::Sharding &part, int64_t leaf, llvm::StringRef name);

/// A rank's result from those of its leaves, which are cut as `part` says: their tree of sums, neighbours first, or one
/// behind the other.
mlir::Value joinLeaves(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> leaves, const dist::LeafCut &cut,
                       const dist::Sharding &part, llvm::StringRef name);

} // namespace tessera::compiler

#endif
