//===- Passes.h - the passes of compiler/transform ---------------------------------------------------===//
//
//   graph-fuse-attention    products with a softmax between to attention; stands before differentiation
//   graph-lower-precision   mixed precision (option `type`: bf16, f16); stands before graph-decompose-norms
//   graph-decompose-norms   batch_norm and batch_norm_grad to reductions and elementwise operators
//   graph-recompute         makes activations again for the backward half (options `level`: cheap, full, `segments`); after
//                           graph-simplify, which would merge them again
//   graph-simplify          merges operators that compute the same and removes unused ones; run it
//                           after the others
//   graph-index-limits      notes on inputs and targets of which values they may be
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRANSFORM_PASSES_H
#define TESSERA_COMPILER_TRANSFORM_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <functional>
#include <memory>

namespace tessera::compiler {

std::unique_ptr<mlir::Pass> createDecomposeNormsPass();
/// `keep`: whether an operator of this name must stay what it is; null: none.
std::unique_ptr<mlir::Pass> createFuseAttentionPass(std::function<bool(llvm::StringRef name)> keep = nullptr);
std::unique_ptr<mlir::Pass> createLowerPrecisionPass(llvm::StringRef type);
/// `segments`: of the level full only these; empty: all.
std::unique_ptr<mlir::Pass> createRecomputePass(llvm::StringRef level, llvm::ArrayRef<int64_t> segments = {});
/// The segments that the level full makes again with what they cost, those first that free most bytes for it.
std::vector<std::pair<int64_t, double>> segmentsByWorth(mlir::func::FuncOp func,
                                                        llvm::function_ref<double(mlir::Operation *)> cost);
std::unique_ptr<mlir::Pass> createSimplifyPass();
std::unique_ptr<mlir::Pass> createIndexLimitsPass();

/// Makes the passes known by name.
void registerTransformPasses();

} // namespace tessera::compiler

#endif
