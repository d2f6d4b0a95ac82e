//===- AddingConvs.h - convolutions that add to what memory holds --------------------------------------===//
//
// Where the gradients of two branches meet, a loop adds the sum of a convolution to a gradient of 16 bits, and rounds:
//
//   conv_input_grad(dy, w) -> t, f32;  fused(t, z): u = t + z, r = cast u to bf16 {rounds}, ... -> y
//     =>   conv_input_grad(dy, w) is added to z in F32 and rounded into the place of z;  fused(z): ... -> y
//
// So the sum in F32 is neither written nor read, and the numbers are the same. The library stores 16 bits then, for
// which it has engines that it need not compile first.
//
// That is done where nothing else reads t, nothing reads z behind the convolution but the loop, and the loop uses both
// for nothing else. graph-round-products writes such loops (docs/adr/0008-mixed-precision.md).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_ADDINGCONVS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_ADDINGCONVS_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <optional>

namespace tessera::rt::cuda {

/// Values of a loop: rounded = the sum of the inputs `sum` and `addend`, in 16 bits. Nothing else is made of either.
struct RoundedAddition {
  uint32_t sum = 0, addend = 0, rounded = 0;
};
std::optional<RoundedAddition> roundedAdditionOf(const ExpressionCode &code, uint32_t sum);

/// The loop that reads the rounded addition in the place of the addend, and the sum not at all.
plan::Kernel withoutSum(const plan::Kernel &loop, const RoundedAddition &addition);

/// A convolution that can add, and the loop behind it.
struct AddingConv {
  size_t conv = 0, loop = 0;    // steps
  uint32_t sum = 0, addend = 0; // buffers
  CudaKernel kernel;            // of the convolution
  StepAccess access;            // its bytes
  plan::Kernel rest;            // the loop
};
std::optional<AddingConv> addingConvFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                         size_t first, const BufferUses &uses, const JoinedProgram &joined,
                                         const BindOptions &options);

} // namespace tessera::rt::cuda

#endif
