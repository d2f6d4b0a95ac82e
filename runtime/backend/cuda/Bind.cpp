// Which file binds which kernel.
#include "runtime/backend/cuda/CudaKernel.h"

#include <functional>
#include <map>
#include <set>

namespace tessera::rt::cuda {

static bool isHalf(plan::DType type) { return type == plan::F16 || type == plan::BF16; }

static bool hasHalf(const KernelCall &call) {
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (isHalf(view.dtype))
        return true;
  return false;
}

/// While a kernel is bound its own scratch memory is counted from 0, and the copies of its operands from here.
constexpr uint64_t kCopies = uint64_t(1) << 56;

template <typename F> static void forEachPlace(Action &action, F &&f) {
  if (auto *launch = std::get_if<Launch>(&action)) {
    for (Place &place : launch->arguments)
      f(place);
  } else if (auto *copy = std::get_if<CopyBytes>(&action)) {
    f(copy->to);
    f(copy->from);
  } else if (auto *fill = std::get_if<FillBytes>(&action)) {
    f(fill->to);
  } else if (auto *matmul = std::get_if<LibraryMatMul>(&action)) {
    for (Place *place : {&matmul->a, &matmul->b, &matmul->y, &matmul->bias, &matmul->aux})
      f(*place);
  } else if (auto *conv = std::get_if<LibraryConv>(&action)) {
    for (Place *place : {&conv->a, &conv->b, &conv->y})
      f(*place);
  }
}

/// One elementwise kernel that converts `from` to `to`.
static void addConversion(CudaKernel &kernel, const TensorView &from, const TensorView &to) {
  const Shape flat = {from.elements()};
  ExpressionCode code;
  code.domain = flat;
  code.inputs.push_back({from.dtype, flat});
  code.results.push_back({0, plan::NONE, to.dtype, flat});
  KernelCall call;
  call.inputs = {from};
  call.outputs = {to};
  for (Action &action : bindExpression(code, call).actions)
    kernel.actions.push_back(std::move(action));
}

std::vector<CudaKernel>
bindThroughF32(const KernelCall &call,
               const std::function<std::vector<CudaKernel>(const KernelCall &)> &bind) {
  // The copies lie first in the scratch memory, the kernel's own comes after them. Where a plan is widened they are
  // F64, as everything else.
  KernelCall wide = call;
  plan::DType type = plan::F32;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (view.dtype == plan::F64)
        type = plan::F64;
  uint64_t copies = 0;
  for (std::vector<TensorView> *views : {&wide.inputs, &wide.outputs})
    for (TensorView &view : *views)
      if (isHalf(view.dtype)) {
        view.dtype = type;
        view.data = reinterpret_cast<void *>(kScratchBase + kCopies + copies);
        copies += (view.bytes() + 255) / 256 * 256;
      }
  std::vector<CudaKernel> choices = bind(wide);
  for (CudaKernel &choice : choices) {
    CudaKernel all;
    all.description = choice.description + ", on " + dtypeName(type) + " copies";
    all.scratch = copies + choice.scratch;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (isHalf(call.inputs[i].dtype))
        addConversion(all, call.inputs[i], wide.inputs[i]);
    const size_t first = all.actions.size();
    for (Action &action : choice.actions)
      all.actions.push_back(std::move(action));
    for (size_t a = first; a < all.actions.size(); ++a)
      forEachPlace(all.actions[a], [&](Place &place) {
        if (place.scratch && place.value < kCopies)
          place.value += copies;
      });
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (isHalf(call.outputs[i].dtype))
        addConversion(all, wide.outputs[i], call.outputs[i]);
    for (Action &action : all.actions)
      forEachPlace(action, [&](Place &place) {
        if (place.scratch && place.value >= kCopies)
          place.value -= kCopies;
      });
    choice = std::move(all);
  }
  return choices;
}

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
      {"topk", single(bindIndexing)},
      {"softmax", single(bindSoftmax)},
      {"softmax_grad", single(bindSoftmax)},
      {"log_softmax", single(bindSoftmax)},
      {"log_softmax_grad", single(bindSoftmax)},
      {"max_pool", single(bindPool)},
      {"max_pool_grad", single(bindPool)},
      {"avg_pool", single(bindPool)},
      {"avg_pool_grad", single(bindPool)},
      {"attention", bindAttention},
      {"attention_grad", bindAttention},
      {"matmul", [](const KernelCall &c, const BindOptions &o) { return bindMatMul(c, o); }},
      {"conv", bindConv},
      {"conv_input_grad", bindConv},
      {"conv_weight_grad", bindConv},
  };
  auto it = table.find(call.name());
  if (it == table.end())
    return Status::error("the cuda backend has no kernel '" + call.name() + "'");
  // What only moves elements does not mind their type.
  static const std::set<std::string, std::less<>> moves = {"reshape", "transpose", "slice",
                                                           "pad",     "concat",    "gather"};
  if (!hasHalf(call) || moves.contains(call.name()))
    return it->second(call, options);
  // Products: on tensor cores as they are; where the library refuses, as products of F32 copies, which TF32 holds
  // without loss.
  static const std::set<std::string, std::less<>> products = {"matmul", "conv", "conv_input_grad",
                                                              "conv_weight_grad"};
  std::vector<CudaKernel> choices;
  BindOptions wideOptions = options;
  if (products.contains(call.name())) {
    choices = it->second(call, options);
    wideOptions.tf32 =
        options.tf32 || (isHalf(call.inputs[0].dtype) && isHalf(call.inputs[1].dtype));
  }
  for (CudaKernel &choice :
       bindThroughF32(call, [&](const KernelCall &wide) { return it->second(wide, wideOptions); }))
    choices.push_back(std::move(choice));
  return choices;
}

} // namespace tessera::rt::cuda
