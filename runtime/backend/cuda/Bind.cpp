// Which file binds which kernel.
#include "runtime/backend/cuda/CudaKernel.h"

#include <functional>
#include <map>

namespace tessera::rt::cuda {

Result<std::vector<CudaKernel>> bindCuda(const KernelCall &call, const BindOptions &options) {
  if (isExpressionKernel(call.name())) {
    Result<ExpressionCode> code = lowerExpression(call);
    if (!code)
      return code.status();
    return std::vector<CudaKernel>{bindExpression(*code, call)};
  }
  using Binder = std::function<std::vector<CudaKernel>(const KernelCall &, const BindOptions &)>;
  auto single = [](CudaKernel (*bind)(const KernelCall &)) -> Binder {
    return [bind](const KernelCall &c, const BindOptions &) { return std::vector{bind(c)}; };
  };
  static const std::map<std::string, Binder, std::less<>> table = {
      {"reshape", single(bindMovement)},
      {"transpose", single(bindMovement)},
      {"slice", single(bindMovement)},
      {"pad", single(bindMovement)},
      {"concat", single(bindMovement)},
      {"gather", single(bindIndexing)},
      {"scatter_add", single(bindIndexing)},
      {"argmax", single(bindIndexing)},
      {"softmax", single(bindSoftmax)},
      {"softmax_grad", single(bindSoftmax)},
      {"log_softmax", single(bindSoftmax)},
      {"log_softmax_grad", single(bindSoftmax)},
      {"max_pool", single(bindPool)},
      {"max_pool_grad", single(bindPool)},
      {"avg_pool", single(bindPool)},
      {"avg_pool_grad", single(bindPool)},
      {"matmul", bindMatMul},
      {"conv", bindConv},
      {"conv_input_grad", bindConv},
      {"conv_weight_grad", bindConv},
  };
  auto it = table.find(call.name());
  if (it == table.end())
    return Status::error("the cuda backend has no kernel '" + call.name() + "'");
  return it->second(call, options);
}

} // namespace tessera::rt::cuda
