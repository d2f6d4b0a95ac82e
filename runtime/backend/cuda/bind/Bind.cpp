// The table of which file binds which kernel.
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/bind/RowPieces.h"
#include "runtime/backend/cuda/text/Source.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
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

/// While a kernel is bound its own scratch memory is counted from 0, and the copies of its operands from here: those of
/// another type, and those of another layout around them.
constexpr uint64_t kWideCopies = uint64_t(1) << 56, kLayoutCopies = uint64_t(1) << 57;

using Bind = std::function<std::vector<CudaKernel>(const KernelCall &)>;

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
  } else if (auto *attention = std::get_if<LibraryAttention>(&action)) {
    for (Place &place : attention->tensors)
      f(place);
  }
}

/// One kernel that copies `from` to `to`, which differ in type or in layout.
static void addCopy(CudaKernel &kernel, const TensorView &from, const TensorView &to) {
  KernelCall call;
  call.inputs = {from};
  call.outputs = {to};
  if (from.elements() == 0)
    return;
  if (from.dtype != to.dtype) {
    const Shape flat = {from.elements()};
    ExpressionCode code;
    code.domain = flat;
    code.inputs.push_back({from.dtype, flat});
    code.results.push_back({0, plan::NONE, to.dtype, flat});
    for (Action &action : bindExpression(code, call).actions)
      kernel.actions.push_back(std::move(action));
    return;
  }
  // The loops run in the order of the memory that is written.
  StridedCopy copy;
  copy.elementBytes = bytesPerElement(to.dtype);
  const Shape logical = rowMajorStrides(to.shape);
  const Shape last = channelsLastStrides(to.shape);
  std::vector<size_t> order(to.shape.size());
  std::iota(order.begin(), order.end(), size_t(0));
  if (!to.layout.plain())
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  for (size_t d : order) {
    copy.sizes.push_back(to.shape[d]);
    copy.toStrides.push_back((to.layout.plain() ? logical : last)[d]);
    copy.fromStrides.push_back((from.layout.plain() ? logical : last)[d]);
  }
  kernel.actions.push_back(launchLoop(stridedCopy(copy), to.elements(), {at(from.data), at(to.data)}));
}

/// Binds a kernel to copies of operands. `change` turns an operand into its copy, or leaves it alone. In scratch memory
/// the copies lie before the kernel's own scratch.
static std::vector<CudaKernel> bindOnCopies(const KernelCall &call, uint64_t base, const std::string &what,
                                            const std::function<bool(TensorView &)> &change, const Bind &bind) {
  KernelCall other = call;
  uint64_t copies = 0;
  std::vector<size_t> inputs, outputs; // that are copied
  for (bool output : {false, true}) {
    std::vector<TensorView> &views = output ? other.outputs : other.inputs;
    for (size_t i = 0; i < views.size(); ++i)
      if (change(views[i])) {
        views[i].data = reinterpret_cast<void *>(kScratchBase + base + copies);
        copies += (views[i].bytes() + 255) / 256 * 256;
        (output ? outputs : inputs).push_back(i);
      }
  }
  std::vector<CudaKernel> choices = bind(other);
  for (CudaKernel &choice : choices) {
    CudaKernel all;
    all.description = choice.description + (inputs.empty() && outputs.empty() ? "" : what);
    all.scratch = copies + choice.scratch;
    for (size_t i : inputs)
      addCopy(all, call.inputs[i], other.inputs[i]);
    const size_t first = all.actions.size();
    for (Action &action : choice.actions)
      all.actions.push_back(std::move(action));
    for (size_t a = first; a < all.actions.size(); ++a)
      forEachPlace(all.actions[a], [&](Place &place) {
        if (place.scratch && place.value < base)
          place.value += copies;
      });
    for (size_t i : outputs)
      addCopy(all, other.outputs[i], call.outputs[i]);
    for (Action &action : all.actions)
      forEachPlace(action, [&](Place &place) {
        if (place.scratch && place.value >= base && place.value < 2 * base)
          place.value -= base;
      });
    choice = std::move(all);
  }
  return choices;
}

/// F16 and BF16 as F32 copies; as F64 where a plan is widened, as everything else.
static std::vector<CudaKernel> bindThroughF32(const KernelCall &call, const Bind &bind) {
  plan::DType type = plan::F32;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (view.dtype == plan::F64)
        type = plan::F64;
  return bindOnCopies(
      call, kWideCopies, ", on " + dtypeName(type) + " copies",
      [type](TensorView &view) {
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
      [](TensorView &view) {
        const bool copied = !liesChannelsLast(view);
        if (copied)
          view.layout = channelsLastLayout(view.shape);
        return copied;
      },
      bind);
}

static std::vector<CudaKernel> bindThroughPlain(const KernelCall &call, const Bind &bind) {
  return bindOnCopies(
      call, kLayoutCopies, ", on plain copies",
      [](TensorView &view) {
        const bool copied = !view.layout.plain();
        view.layout = Layout();
        return copied;
      },
      bind);
}

/// Binds a call whose operands are all plain.
static Result<std::vector<CudaKernel>> bindPlain(const KernelCall &call, const BindOptions &options) {
  if (isExpressionKernel(call.name())) {
    Result<ExpressionCode> code = lowerExpression(call);
    if (!code)
      return code.status();
    return std::vector<CudaKernel>{bindExpression(*code, call)};
  }
  if (std::optional<CudaKernel> rows = bindPieces(rowPieces(call), call))
    return std::vector<CudaKernel>{std::move(*rows)};
  using Binder = std::function<std::vector<CudaKernel>(const KernelCall &, const BindOptions &)>;
  auto single = [](CudaKernel (*bind)(const KernelCall &)) -> Binder {
    return [bind](const KernelCall &c, const BindOptions &) { return std::vector{bind(c)}; };
  };
  const Binder pool = [](const KernelCall &c, const BindOptions &) { return bindPool(c); };
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
      {"log_softmax", single(bindSoftmax)},
      {"log_softmax_grad", single(bindSoftmax)},
      {"max_pool", pool},
      {"max_pool_grad", pool},
      {"avg_pool", pool},
      {"avg_pool_grad", pool},
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
  bool plain = true, last = true;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views) {
      plain = plain && view.layout.plain();
      last = last && liesChannelsLast(view);
    }
  if (plain)
    return bindPlain(call, options);
  std::vector<CudaKernel> choices;
  if (isExpressionKernel(call.name())) {
    Result<ExpressionCode> code = lowerExpression(call);
    if (!code)
      return code.status();
    if (std::optional<ExpressionCode> last = withChannelsLast(*code, call)) {
      choices.push_back(bindExpression(*last, call));
      return choices;
    }
  } else if (call.name().starts_with("conv")) {
    choices = bindThroughLast(call, [&](const KernelCall &c) { return bindConv(c, options); });
  } else if (last && call.name().find("_pool") != std::string::npos) {
    return bindPool(call);
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
