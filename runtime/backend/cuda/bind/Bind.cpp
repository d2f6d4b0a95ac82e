// The table of which file binds which kernel.
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/Copies.h"
#include "runtime/backend/cuda/bind/RowPieces.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"

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

/// F16 and BF16 as F32 copies; as F64 where a plan is widened, as everything else.
static std::vector<CudaKernel> bindThroughF32(const KernelCall &call, const Bind &bind) {
  plan::DType type = plan::F32;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (view.dtype == plan::F64)
        type = plan::F64;
  KernelCall given = call;
  if (type == plan::F32 && isHalf(call.outputs[0].dtype))
    given.narrowed = call.outputs[0].dtype;
  return bindOnCopies(
      given, kWideCopies, ", on " + dtypeName(type) + " copies",
      [type](TensorView &view, size_t) {
        if (!isHalf(view.dtype))
          return false;
        view.dtype = type;
        return true;
      },
      bind);
}

/// Binds a convolution with operands in both layouts to copies with channels last. Plain copies would often be the
/// larger part, and the library would convert them back.
static std::vector<CudaKernel> bindThroughLast(const KernelCall &call, const Bind &bind) {
  return bindOnCopies(
      call, kLayoutCopies, ", on copies",
      [](TensorView &view, size_t) {
        const bool copied = !liesChannelsLast(view);
        if (copied)
          view.layout = channelsLastLayout(view.shape);
        return copied;
      },
      bind);
}

/// Binds a convolution of 16 bits with few channels, such as an image's three, to copies with channels last and further
/// channels of zeros: tensor cores read 16 bytes at once, and not all that the library does for eight it does for
/// three.
static std::vector<CudaKernel> bindThroughFurtherChannels(const KernelCall &call, const Bind &bind) {
  constexpr int64_t kAtOnce = 8;
  const size_t result = call.name() == "conv" ? 2 : call.name() == "conv_input_grad" ? 0 : 1; // the forward one's
  const Shape &x = result == 0 ? call.outputs[0].shape : call.inputs[0].shape;
  if (!isHalf(call.inputs[0].dtype) || call.intAttribute("groups", 1) != 1 || x[1] % kAtOnce == 0)
    return {};
  return bindOnCopies(
      call, kLayoutCopies, ", on copies with further channels",
      [result](TensorView &view, size_t operand) {
        const bool copied = operand != result || !liesChannelsLast(view);
        if (operand != result)
          view.shape[1] = (view.shape[1] + kAtOnce - 1) / kAtOnce * kAtOnce;
        if (copied)
          view.layout = channelsLastLayout(view.shape);
        return copied;
      },
      bind);
}

static std::vector<CudaKernel> bindThroughPlain(const KernelCall &call, const Bind &bind) {
  return bindOnCopies(
      call, kLayoutCopies, ", on plain copies",
      [](TensorView &view, size_t) {
        const bool copied = !view.layout.plain();
        view.layout = Layout();
        return copied;
      },
      bind);
}

/// In a reproducible plan a number of 16 bits that stays in a loop is what memory would hold, since in another plan it
/// may lie there.
static Result<ExpressionCode> lower(const KernelCall &call) {
  Result<ExpressionCode> code = lowerExpression(call);
  if (code && call.exact)
    for (Instr &instr : code->code)
      instr.rounds = instr.rounds || isHalf(instr.type);
  return code;
}

/// Binds a call whose operands are all plain.
static Result<std::vector<CudaKernel>> bindPlain(const KernelCall &call, const BindOptions &options) {
  if (isExpressionKernel(call.name())) {
    Result<ExpressionCode> code = lower(call);
    if (!code)
      return code.status();
    return std::vector<CudaKernel>{bindExpression(*code, call)};
  }
  // How a row's sums are shared out follows from what is joined and from addresses.
  if (!call.exact)
    if (std::optional<CudaKernel> rows = bindPieces(rowPieces(call), call))
      return std::vector<CudaKernel>{std::move(*rows)};
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
      {kMicroRows, single(bindMicroRows)},
      {"gather", single(bindIndexing)},
      {"scatter_add", single(bindIndexing)},
      {"argmax", single(bindIndexing)},
      {"topk", single(bindIndexing)},
      {"orthonormalize", single(bindOrthonormalize)},
      {"softmax", single(bindSoftmax)},
      {"softmax_grad", single(bindSoftmax)},
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
  // Kernels that only move elements accept any type, and pooling converts to F32 itself.
  static const std::set<std::string, std::less<>> anyType = {"reshape",       "transpose",     "slice",    "pad",
                                                             "concat",        "gather",        "max_pool", "avg_pool",
                                                             "max_pool_grad", "avg_pool_grad", kMicroRows};
  // Attention reads and writes 16 bits itself, unless its sums are F64.
  const bool own =
      anyType.contains(call.name()) || (call.name().starts_with("attention") && call.outputs[0].dtype != plan::F64);
  if (!hasHalf(call) || own)
    return it->second(call, options);
  // Products of 16 bits run on tensor cores as they are. Where the library refuses that, they run on F32 copies, which
  // TF32 holds without loss.
  static const std::set<std::string, std::less<>> products = {"matmul", "conv", "conv_input_grad", "conv_weight_grad"};
  std::vector<CudaKernel> choices;
  BindOptions wideOptions = options;
  if (products.contains(call.name())) {
    choices = it->second(call, options);
    wideOptions.tf32 = options.tf32 || (isHalf(call.inputs[0].dtype) && isHalf(call.inputs[1].dtype));
  }
  for (CudaKernel &choice : bindThroughF32(call, [&](const KernelCall &wide) { return it->second(wide, wideOptions); }))
    choices.push_back(std::move(choice));
  return choices;
}

Result<std::vector<CudaKernel>> bindCuda(const KernelCall &call, const BindOptions &options) {
  bool plain = true, last = true, blocks = false;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views) {
      plain = plain && view.layout.plain();
      last = last && liesChannelsLast(view);
      blocks = blocks || !view.layout.inner.empty();
    }
  if (plain)
    return bindPlain(call, options);
  std::vector<CudaKernel> choices;
  if (isExpressionKernel(call.name())) {
    Result<ExpressionCode> code = lower(call);
    if (!code)
      return code.status();
    std::optional<ExpressionCode> last = withPitches(*code, call);
    if (!last)
      last = withChannelsLast(*code, call);
    if (last) {
      choices.push_back(bindExpression(*last, call));
      return choices;
    }
  } else if (call.name().starts_with("conv")) {
    const Bind bind = [&](const KernelCall &c) { return bindConv(c, options); };
    choices = bindThroughLast(call, bind);
    for (CudaKernel &choice : bindThroughFurtherChannels(call, bind))
      choices.push_back(std::move(choice));
  } else if (last && call.name().find("_pool") != std::string::npos) {
    return std::vector<CudaKernel>{bindPool(call)};
  } else if (call.name() == "matmul" && !blocks) {
    choices = bindMatMul(call, options);
  } else if (std::optional<CudaKernel> rows = bindPieces(rowPieces(call), call)) {
    choices.push_back(std::move(*rows));
    return choices;
  } else if (call.name() == kMicroRows) {
    return std::vector<CudaKernel>{bindMicroRows(call)};
  }
  Status refusal;
  for (CudaKernel &choice : bindThroughPlain(call, [&](const KernelCall &copied) {
         Result<std::vector<CudaKernel>> bound = bindPlain(copied, options);
         refusal = bound.status();
         return bound ? std::move(*bound) : std::vector<CudaKernel>();
       }))
    choices.push_back(std::move(choice));
  TESSERA_RETURN_IF_ERROR(refusal);
  return choices;
}

} // namespace tessera::rt::cuda
