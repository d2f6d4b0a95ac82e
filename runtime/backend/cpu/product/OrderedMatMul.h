//===- OrderedMatMul.h - matmul for reproducible plans ------------------------------------------------------===//
//
//   registerOrderedMatMul(registry);                                 // before kernels whose order is the library's
//   bindOrderedMatMul(call, *productOps())->run(scratch);            // call.exact, every operand F32, plain, not empty
//
// OrderedProduct.h says which bits the result has.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDMATMUL_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDMATMUL_H

#include "runtime/backend/KernelChecks.h"

namespace tessera::rt {

struct ProductOps;

/// For reproducible plans, on processors with fused multiply-adds of vectors.
void registerOrderedMatMul(KernelRegistry &registry);
/// matmul by given loops.
std::unique_ptr<BoundKernel> bindOrderedMatMul(const KernelCall &call, const ProductOps &ops);
/// The rows of all matrices as those of one, where they share B and lie one after the other.
MatMulGeometry joinRows(MatMulGeometry g);

} // namespace tessera::rt

#endif
