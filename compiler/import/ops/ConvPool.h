//===- ConvPool.h - convolutions for the builders of several families --------------------------------===//
//
//   Val y = convolution(n, n.b.cast(x, DType::F32, "wide"), weights, "product");
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_OPS_CONVPOOL_H
#define TESSERA_COMPILER_IMPORT_OPS_CONVPOOL_H

#include "compiler/import/Node.h"

namespace tessera::compiler {

/// A dilated, padded, strided window. `pads` has the padding before every dimension, then that after every dimension.
struct Window {
  Shape kernel, strides, pads, dilations;
};

/// x convolved with the weights, with the node's kernel_shape, strides, pads, dilations, auto_pad and group.
Val convolution(Node &n, const Val &x, const Val &weight, llvm::StringRef suffix = "");

/// The int64 index of every window's maximum in x [n, c, spatial...], as a linear index over all elements.
/// Column-major: the first spatial dimension varies fastest.
Val indicesOfMaxima(Node &n, const Val &x, const Window &window, bool columnMajor);

} // namespace tessera::compiler

#endif
