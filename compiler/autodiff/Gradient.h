//===- Gradient.h - reverse-mode differentiation of graph programs -------------------------------===//
//
// `differentiate` appends operators to a function that compute vector-Jacobian products. From values of the function
// and their adjoints (the seeds) it derives the adjoints of other values. The gradient consists of ordinary graph
// operators in the same function, so that forward, backward and update are partitioned together.
//
//   y = relu(matmul(x, w)); loss = reduce_sum(y); seeds {loss, 1}; wrt {w}
//   gives    dy = broadcast(1), dz = select(0 < y, dy, 0), dw = matmul(x, dz) {transpose_a}
//   and nothing for x, which is not in wrt
//
// The table of GradientRules.h has a rule for each operator. Rules prefer the result of the forward operator to its
// operand (relu, tanh, exp, softmax), so that nothing is computed twice. The adjoints from several uses of a value are
// added in the reverse order of the uses, so the result does not depend on addresses.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_GRADIENT_H
#define TESSERA_COMPILER_AUTODIFF_GRADIENT_H

#include "dialects/graph/OpWriter.h"

namespace tessera::compiler {

struct Seed {
  mlir::Value value, adjoint; // of equal type
};

/// The adjoints of `wrt`, in order. An adjoint is null if no seed depends on the value. Fails with a sentence that
/// names an operator without a gradient. The new operators carry graph.grad_of = name of the forward operator, and
/// graph.name = that name + ".grad" (".grad_w", ... if it has several gradients), made unique.
llvm::Expected<llvm::SmallVector<mlir::Value>> differentiate(graph::OpWriter &builder, llvm::ArrayRef<Seed> seeds,
                                                             llvm::ArrayRef<mlir::Value> wrt);

} // namespace tessera::compiler

#endif
