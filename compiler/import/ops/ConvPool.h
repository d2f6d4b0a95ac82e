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

/// The node's strides, pads and dilations beside `kernel`, for x [n, c, spatial...]; nullopt: failed.
std::optional<Window> readWindow(Node &n, const Val &x, Shape kernel);

/// A pooling node's window, with auto_pad and ceil_mode; nullopt: failed. `ceilGrew`: by how much every upper pad grew
/// because of ceil_mode.
std::optional<Window> readPool(Node &n, const Val &x, Shape &ceilGrew);

/// The sum over every window of x [n, c, spatial...], floating point; padding is 0.
Val windowSum(Node &n, const Val &x, const Window &window, llvm::StringRef suffix);

/// Adds a per-channel bias [c] to y [n, c, spatial...]; without a bias y.
Val addBias(Node &n, const Val &y, const Val &bias);

/// Where in x [n, c, spatial...], as one row of elements, the maximum of every window lies: int64. Column-major: the
/// first spatial dimension is counted fastest.
Val indicesOfMaxima(Node &n, const Val &x, const Window &window, bool columnMajor);

} // namespace tessera::compiler

#endif
