//===- GradientNorm.h - the norm of all gradients, and clipping by it -------------------------------===//
//
// Sums run in float32 at least, also where gradients have 16 bits. In a program that is one rank's, a gradient
// may be a slice; the squares of slices are summed over the ranks that hold them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_GRADIENTNORM_H
#define TESSERA_COMPILER_TRAINING_GRADIENTNORM_H

#include "dialects/dist/Mesh.h"
#include "dialects/graph/OpWriter.h"

namespace tessera::compiler {

/// In a program that is one rank's: the axes along which ranks hold different slices, of every gradient. Without axes
/// gradients are whole.
struct Slices {
  dist::Mesh mesh;
  llvm::SmallVector<dist::AxisList> axes;
};

/// The squares of all numbers of the gradients, added up; null if all gradients are.
mlir::Value sumOfSquares(graph::OpWriter &builder, llvm::ArrayRef<mlir::Value> gradients, const Slices &slices = {});

/// The gradients times min(1, limit / (norm + 1e-6)), norm being that of all of them together
/// (torch.nn.utils.clip_grad_norm_). Null gradients stay null. Returns the norm; null if all gradients are.
mlir::Value clipGlobalNorm(graph::OpWriter &builder, double limit, llvm::MutableArrayRef<mlir::Value> gradients,
                           const Slices &slices = {});

} // namespace tessera::compiler

#endif
