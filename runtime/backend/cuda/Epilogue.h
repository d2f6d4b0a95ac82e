//===- Epilogue.h - a product and what follows it, as one library call ------------------------------===//
//
// Fusion leaves products alone, so that a plan has a product and a loop that reads it:
//
//   matmul(x, w) -> t;  fused(t, bias): u = t + bias, relu u -> y       =>   y = relu(x w + bias), one call
//
// That is done where nothing else reads t, and the loop is a bias over the last dimension, ReLU, GELU by its tanh
// formula, or a bias and one of them, and stores nothing else but what the function is applied to. The call runs
// where the loop stood, so that nothing between the two may write the product's operands.
//
// GELU by erf is another function, and stays a loop.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_EPILOGUE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_EPILOGUE_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/CudaKernel.h"
#include "runtime/backend/cuda/Schedule.h"

#include <map>
#include <optional>

namespace tessera::rt::cuda {

/// What a loop does to its input number `input`.
struct Epilogue {
  int32_t bits = 0;           // TESSERA_EPILOGUE_*
  std::optional<size_t> bias; // an input of the loop
  size_t result = 0;          // outputs of the loop
  std::optional<size_t> kept;
};
std::optional<Epilogue> epilogueOf(const ExpressionCode &code, size_t input);

/// By the step of a product, the step of the loop that can be done with it.
std::map<size_t, size_t> productsWithLoops(const plan::Plan &plan, int program,
                                           const std::vector<ByteRange> &buffers);

/// Both as one call, if they can be; `input` is the product's place among the loop's operands.
std::optional<CudaKernel> bindProductWithLoop(const KernelCall &product, const KernelCall &loop,
                                              size_t input, const BindOptions &options);

} // namespace tessera::rt::cuda

#endif
