//===- OrderedMatMul.h - products in float32 whose bits do not depend on how they are cut -------------------===//
//
// matmul for reproducible plans. The terms of a leaf are added in ascending order, one fused multiply-add each, and the
// leaves' sums as a balanced tree, neighbours first. Rows, columns, threads, tiles and instruction set change no bit: one
// rank's product with four leaves is the tree of four ranks' products with one leaf each.
//
//   registerOrderedMatMul(registry);                                 // before kernels whose order is the library's
//   bindOrderedMatMul(call, *productOps())->run(scratch);            // call.exact, every operand F32, plain, not empty
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

} // namespace tessera::rt

#endif
