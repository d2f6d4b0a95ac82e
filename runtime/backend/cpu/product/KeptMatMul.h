//===- KeptMatMul.h - matmul where the right matrix stays --------------------------------------------------===//
//
// Where no step writes B, as in a plan that only infers, its columns are kept as the innermost loops read them
// (KeptColumns.h), and A is read where it lies: nothing is copied. An element is the sum of its terms in ascending
// order, one fused multiply-add each, so it has the bits of an ordered product of one leaf (OrderedProduct.h).
//
//   registerKeptMatMul(registry);                                    // before all other kernels for matmul
//   bindKeptMatMul(call, *productOps());                             // F32, plain, not empty, one leaf, B stays
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_KEPTMATMUL_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_KEPTMATMUL_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

struct ProductOps;

/// On processors with fused multiply-adds of vectors.
void registerKeptMatMul(KernelRegistry &registry);
BindResult bindKeptMatMul(const KernelCall &call, const ProductOps &ops);

} // namespace tessera::rt

#endif
