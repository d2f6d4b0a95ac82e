//===- Indexing.h - elements taken by computed indices --------------------------------------------===//
//
// NumPy's take_along_axis and its adjoint on the batched gather of the graph dialect, for the builders
// of several families:
//
//   Val order = topK...;                        // [b, k] indices into x [b, n]
//   Val values = takeAlong(n, x, order, 1);     // [b, k]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_OPS_INDEXING_H
#define TESSERA_COMPILER_IMPORT_OPS_INDEXING_H

#include "compiler/import/Node.h"

namespace tessera::compiler {

/// Negative indices count from the end.
Val wrapIndices(Node &n, const Val &indices, int64_t extent);

/// y[..., j, ...] = x[..., indices[..., j, ...], ...]; outside of `axis` the shapes are equal.
Val takeAlong(Node &n, const Val &x, const Val &indices, int64_t axis, llvm::StringRef suffix = "");
/// Zeros of extent `size` along axis, plus updates at indices (which have one shape).
Val addAlong(Node &n, const Val &indices, const Val &updates, int64_t axis, int64_t size, llvm::StringRef suffix = "");

} // namespace tessera::compiler

#endif
