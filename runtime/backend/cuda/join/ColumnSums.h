//===- ColumnSums.h - a product that sums the columns of its right operand, too -------------------------===//
//
// The gradient of a bias sums the rows of the gradient that the product for the weights' gradient reads:
//
//   fused(t): reduce_sum rows of t -> s;  matmul(x, t) {transpose_a} -> w     =>   w = x^T t and s = 1^T t, one call
//
// The library sums while it multiplies, so that t is read once less. It sums in F32 and stores s in the type of w. That
// is done for operands of 16 bits, of which such a sum loses nothing that their rounding has not taken. Sums of F32
// stay steps of their own, which add in F64.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_COLUMNSUMS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_COLUMNSUMS_H

#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <optional>

namespace tessera::rt::cuda {

/// Of which rows.
enum class SumsOf {
  NoLoop, // of those that no loop makes: a loop that has them at hand sums them for nothing
  Any,    // of all, once loops along rows are joined
};

/// Joins the product at step `product` with a step that sums the rows of its right operand, if one call can do both.
std::optional<JoinedKernel> columnSumsFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                           size_t product, const BufferUses &uses, const JoinedProgram &joined,
                                           const BindOptions &options, SumsOf which);

} // namespace tessera::rt::cuda

#endif
