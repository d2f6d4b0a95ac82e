//===- UnfoldedConv.h - convolutions of few channels as products of matrices ------------------------------===//
//
// Tensor cores take eight channels of 16 bits at a time. Of an image's three, most of what cuDNN multiplies is zeros,
// forward and for the filters' gradient. So the windows are written out as the rows of a matrix U, a row for each point
// of the result, in which a window's elements lie as a filter's do:
//
//   y[points, filters] = U[points, columns] w^T        dw[filters, columns] = dy^T U
//
//   x bf16[128, 3, 224, 224], windows of 7 x 7: U has 12,544 rows of 147 elements and 5 zeros for each image
//
// U is made in parts of some images, which stay in the device's cache until the product has read them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_CONV_UNFOLDEDCONV_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_CONV_UNFOLDEDCONV_H

#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"

#include <optional>

namespace tessera::rt::cuda {

/// Binds a convolution or the gradient of its filters as products of matrices; nothing where that gains nothing, or
/// cannot be done. All operands lie with their channels last. No size is 0 and no padding negative.
std::optional<CudaKernel> bindUnfolded(const KernelCall &call, const ConvGeometry &g);

} // namespace tessera::rt::cuda

#endif
