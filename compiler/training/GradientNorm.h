//===- GradientNorm.h - the norm of all gradients, and clipping by it -------------------------------===//
//
// Sums are computed in float32 at least, also if gradients have 16 bits. In mode hybrid, where the program is that of
// one rank, a gradient may be a slice. The squares of slices are then summed over the ranks that hold them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_GRADIENTNORM_H
#define TESSERA_COMPILER_TRAINING_GRADIENTNORM_H

#include "dialects/dist/Mesh.h"
#include "dialects/graph/OpWriter.h"

namespace tessera::compiler {

/// In mode hybrid, for every gradient the axes along which ranks hold different slices of it. Without axes a gradient
/// is whole.
struct Slices {
  dist::Mesh mesh;
  llvm::SmallVector<dist::AxisList> axes;
};

/// The sum of the squares of all elements of the gradients; null if all gradients are null.
mlir::Value sumOfSquares(graph::OpWriter &builder, llvm::ArrayRef<mlir::Value> gradients, const Slices &slices = {});

/// Multiplies the gradients by min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does. `norm` is that of
/// all gradients together, before clipping. Null gradients stay null. Returns the norm; null if all gradients are null.
mlir::Value clipGlobalNorm(graph::OpWriter &builder, double limit, llvm::MutableArrayRef<mlir::Value> gradients,
                           const Slices &slices = {});

} // namespace tessera::compiler

#endif
