//===- Gradient.h - reverse-mode differentiation of graph programs -------------------------------===//
//
// Appends to a function the operators that compute vector-Jacobian products: given values of the
// function and their adjoints (the seeds), the adjoints of other values. The gradient consists of
// ordinary graph operators in the same function, so that forward, backward and update are
// partitioned together.
//
//   y = relu(matmul(x, w)); loss = reduce_sum(y); seeds {loss, 1}; wrt {w}
//   gives    dy = broadcast(1), dz = select(0 < y, dy, 0), dw = matmul(x, dz) {transpose_a}
//   and nothing for x: nobody asked for it.
//
// What one operator contributes is in the table of GradientRules.h. Operators that only select, cut
// or sum are not evaluated again: rules prefer the forward operator's result (relu, tanh, exp,
// softmax) to its operand. Several uses of a value add up in the reverse order of the uses: the
// result does not depend on addresses.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_GRADIENT_H
#define TESSERA_COMPILER_AUTODIFF_GRADIENT_H

#include "dialects/graph/OpWriter.h"

namespace tessera::compiler {

struct Seed {
  mlir::Value value, adjoint; // of equal type
};

/// The adjoints of `wrt`, in order; a null Value where no seed depends on it. Fails with a sentence
/// that names the operator that has no gradient. Operators carry graph.grad_of = name of the
/// forward operator and graph.name = that name + ".grad" (".grad_w" ... where it has several), made
/// unique.
llvm::Expected<llvm::SmallVector<mlir::Value>> differentiate(graph::OpWriter &builder, llvm::ArrayRef<Seed> seeds,
                                                             llvm::ArrayRef<mlir::Value> wrt);

} // namespace tessera::compiler

#endif
