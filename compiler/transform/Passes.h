//===- Passes.h - the passes of compiler/transform -----------------------------------------------===//
//
// In the order in which they stand (Passes.td describes each):
//
//   graph-fuse-attention    before differentiation
//   graph-lower-precision   mixed precision
//   graph-decompose-norms   batch_norm and its gradient as reductions and arithmetic
//   graph-simplify          merges and removes what the others left
//   graph-index-limits      notes on inputs and targets of which values they may be
//   graph-recompute         makes activations again for the backward half
//
// and the verifiers of phases 1 and 2: graph-verify-imported, graph-verify-training.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRANSFORM_PASSES_H
#define TESSERA_COMPILER_TRANSFORM_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <vector>

namespace tessera::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/transform/Passes.h.inc"

/// The segments that the level full of graph-recompute makes again with what they cost, those first that free most
/// bytes for it.
std::vector<std::pair<int64_t, double>> segmentsByWorth(mlir::func::FuncOp func,
                                                        llvm::function_ref<double(mlir::Operation *)> cost);

} // namespace tessera::compiler

#endif
