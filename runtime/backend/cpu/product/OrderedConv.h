//===- OrderedConv.h - convolutions of single points for reproducible plans ---------------------------------===//
//
// conv and conv_input_grad whose windows are points: a product of pixels by channels. oneDNN's code for them cuts the
// channels that it sums over in chunks, by the number of the other channels and by the size of the image, so that a cut
// of either changes bits. OrderedProduct.h says which bits these have.
//
//   registerOrderedConv(registry);                                   // before kernels whose order is the library's
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDCONV_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDCONV_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

struct ProductOps;

void registerOrderedConv(KernelRegistry &registry);
/// Null where the windows are more than points, or the operands lie in another way than row-major or in blocks of
/// channels.
std::unique_ptr<BoundKernel> bindOrderedConv(const KernelCall &call, const ProductOps &ops);

} // namespace tessera::rt

#endif
