//===- Reduce.h - roots of sums of squares ---------------------------------------------------------===//
//
// A norm and a standard deviation are roots whose slope at 0 is infinite, and every summand's own slope there
// is 0: the chain rule makes a NaN of the two, where PyTorch takes the gradient 0.
//
//   Val length = rootOfSquares(n, n.b.reduce<graph::ReduceSumOp>(n.b.mul(x, x), {1}, true), "");
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_OPS_REDUCE_H
#define TESSERA_COMPILER_IMPORT_OPS_REDUCE_H

#include "compiler/import/Node.h"

namespace tessera::compiler {

/// Is x a sum of squares, or its product or quotient with a constant?
bool isSumOfSquares(const Val &x);
/// sqrt(squares), with the gradient 0 where it is 0; called `last`.
Val rootOfSquares(Node &n, const Val &squares, llvm::StringRef last);

} // namespace tessera::compiler

#endif
