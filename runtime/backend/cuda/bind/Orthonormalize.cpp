// orthonormalize: one block per matrix, columns in F64.
#include "runtime/backend/Orthonormalize.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {

/// Blocks beyond that take further matrices.
static constexpr int64_t kMostBlocks = 1 << 16;

CudaKernel bindOrthonormalize(const KernelCall &call) {
  CudaKernel kernel;
  kernel.description = "generated";
  const Shape &shape = call.inputs[0].shape;
  const int64_t columns = shape.back(), rows = shape[shape.size() - 2], elements = elementCount(shape);
  if (elements == 0)
    return kernel;
  uint32_t block = 32;
  while (block < 256 && block < rows)
    block *= 2;
  const Constants constants = {{"MATRICES", wide(elements / (rows * columns))},
                               {"ROWS", wide(rows)},
                               {"COLUMNS", wide(columns)},
                               {"BLOCK", std::to_string(block)},
                               {"ATTEMPTS", std::to_string(kOrthonormalAttempts)},
                               {"NOTHING_LEFT", "(1.0 / " + wide(int64_t(1 / kNothingLeft)) + ")"},
                               {"T", memoryType(call.outputs[0].dtype)}};
  const Place basis = kernel.reserve(uint64_t(elements) * sizeof(double));
  kernel.actions.push_back(
      Launch{withConstants(constants, (std::string(kernels::kTotal) + kernels::kOrthonormalize).c_str()),
             {uint32_t(std::min(elements / (rows * columns), kMostBlocks)), 1, 1},
             block,
             {at(call.inputs[0].data), at(call.outputs[0].data), basis}});
  return kernel;
}

} // namespace tessera::rt::cuda
