//===- Passes.h - the passes of compiler/transform -----------------------------------------------===//
//
// The passes in the order in which they run (Passes.td describes each):
//
//   graph-fuse-attention    before differentiation
//   graph-lower-precision   mixed precision
//   graph-decompose-norms   batch_norm, log_softmax and their gradients as reductions
//   graph-simplify          merges and removes what the others left
//   graph-round-products    chooses which sums of products are rounded before a loop reads them; mixed precision
//   graph-index-limits      writes on inputs and targets the limit of their values
//   graph-recompute         recomputes activations for the backward half
//   graph-expire-copies     leaves open how long copies live; where memory is short
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

/// The segments that the level full of graph-recompute recomputes for so many stages, each with its cost, in descending
/// order of bytes freed per cost.
std::vector<std::pair<int64_t, double>> segmentsByWorth(mlir::func::FuncOp func, int64_t stages,
                                                        llvm::function_ref<double(mlir::Operation *)> cost);

/// The names of views begin so that may keep a copy, and of those that the backward half reads (graph-expire-copies).
inline constexpr llvm::StringLiteral kKeptPrefix = "kept/", kBackwardPrefix = "backward/";

} // namespace tessera::compiler

#endif
