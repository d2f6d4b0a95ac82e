//===- Reduce.h - roots of sums of squares ---------------------------------------------------------===//
//
// A norm or a standard deviation is the root of a sum of squares. At 0 the slope of the root is infinite and that of
// every square is 0, so the chain rule gives NaN. PyTorch defines the gradient as 0 there, and so does rootOfSquares.
//
//   Val length = rootOfSquares(n, n.b.reduce<graph::ReduceSumOp>(n.b.mul(x, x), {1}, true), "");
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_OPS_REDUCE_H
#define TESSERA_COMPILER_IMPORT_OPS_REDUCE_H

#include "compiler/import/Node.h"

namespace tessera::compiler {

/// Whether x is a sum of squares, or the product or quotient of one with a constant.
bool isSumOfSquares(const Val &x);
/// sqrt(squares), whose gradient is 0 where it is 0. The operator gets the suffix `last`.
Val rootOfSquares(Node &n, const Val &squares, llvm::StringRef last);

} // namespace tessera::compiler

#endif
