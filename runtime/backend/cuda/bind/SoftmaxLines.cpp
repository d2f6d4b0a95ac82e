// softmax and its gradient: one block per line along the dimension, sums in F64, all else in the type of the call.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {} // namespace

CudaKernel bindSoftmax(const KernelCall &call) {
  CudaKernel kernel;
  kernel.description = "generated";
  AxisGeometry g = *axisGeometry(call);
  const int64_t lines = g.outer * g.inner;
  if (lines == 0 || g.extent == 0)
    return kernel;
  uint32_t block = 32;
  while (block < 256 && block < g.extent)
    block *= 2;
  const bool forward = call.name() == "softmax";
  Constants constants = {{"LINES", wide(lines)},
                         {"EXTENT", wide(g.extent)},
                         {"INNER", wide(g.inner)},
                         {"BLOCK", std::to_string(block)},
                         {"T", memoryType(call.outputs[0].dtype)},
                         {"LOWEST", "__longlong_as_double((i64)0xfff0000000000000ull)"}, // -infinity
                         {"NEEDS_MAXIMUM", forward ? "1" : "0"}};
  if (forward) {
    constants.push_back({"FIRST(i)", "op_exp((T)(p[i] - top))"});
    constants.push_back({"RESULT(i)", "op_exp((T)(p[i] - top)) * (T)(1.0 / sum)"});
  } else { // a = dy, b = y
    constants.push_back({"FIRST(i)", "(double)p[i] * (double)q[i]"});
    constants.push_back({"RESULT(i)", "q[i] * (p[i] - (T)sum)"});
  }
  const TensorView &second = call.inputs[call.inputs.size() > 1 ? 1 : 0];
  kernel.actions.push_back(
      Launch{withConstants(constants, (std::string(kernels::kTotal) + kernels::kSoftmaxLines).c_str()),
             {uint32_t(std::min<int64_t>(lines, 1 << 20)), 1, 1},
             block,
             {at(call.inputs[0].data), at(second.data), at(call.outputs[0].data)}});
  return kernel;
}

} // namespace tessera::rt::cuda
