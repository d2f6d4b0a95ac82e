//===- OrderedWeightGrad.h - gradients of the weights of points, for reproducible plans ---------------------===//
//
// conv_weight_grad whose windows are points: a product of channels by channels, summed over the pixels of all images.
// oneDNN's code for it keeps its bits on one thread alone. OrderedProduct.h says which bits this one has.
//
//   registerOrderedWeightGrad(registry);                             // before kernels whose order is the library's
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDWEIGHTGRAD_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDWEIGHTGRAD_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

struct ProductOps;

void registerOrderedWeightGrad(KernelRegistry &registry);
/// Null where the windows are more than points, or the operands lie in another way than row-major or in blocks of
/// channels.
std::unique_ptr<BoundKernel> bindOrderedWeightGrad(const KernelCall &call, const ProductOps &ops);

} // namespace tessera::rt

#endif
