//===- Epilogue.h - a product and what follows it, as one library call ------------------------------===//
//
// Fusion leaves products alone, so that a plan has a product and a loop that reads it:
//
//   matmul(x, w) -> t;  fused(t, bias): u = t + bias, relu u -> y       =>   y = relu(x w + bias), one call
//
// That is done where nothing else reads t, and the loop is a bias over the last dimension, ReLU, GELU by its tanh
// formula, or a bias and one of them, and stores nothing else but what the function is applied to.
//
// GELU by erf is another function, and stays a loop.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_EPILOGUE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_EPILOGUE_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <optional>

namespace tessera::rt::cuda {

/// The operations of a loop on its input number `input`.
struct Epilogue {
  int32_t bits = 0;           // TESSERA_EPILOGUE_*
  std::optional<size_t> bias; // an input of the loop
  size_t result = 0;          // outputs of the loop
  std::optional<size_t> kept;
};
std::optional<Epilogue> epilogueOf(const ExpressionCode &code, size_t input);

/// Joins the product at step `first` with the loop that reads it, if one call can do both.
std::optional<JoinedKernel> productFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                        size_t first, const BufferUses &uses, const JoinedProgram &joined,
                                        const BindOptions &options);

} // namespace tessera::rt::cuda

#endif
