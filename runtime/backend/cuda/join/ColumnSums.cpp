#include "runtime/backend/cuda/join/ColumnSums.h"

#include "runtime/backend/ExpressionValues.h"
#include "runtime/backend/KernelChecks.h"
#include "runtime/device/DeviceApi.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// How many steps apart both may be.
constexpr size_t kWindow = 64;

/// Whether the step makes the sums of all rows of its only operand, of `columns` numbers each.
bool sumsRows(const KernelCall &call, int64_t columns, plan::DType type) {
  if (!isExpressionKernel(call.name()) || call.inputs.size() != 1 || call.outputs.size() != 1 ||
      call.outputs[0].dtype != type)
    return false;
  const Result<ExpressionCode> code = lowerExpression(call);
  if (!code || code->results.size() != 1 || code->inputs.size() != 1 || code->domain.empty())
    return false;
  Shape row(code->domain.size(), 1);
  row.back() = columns;
  const ExpressionResult &sum = code->results[0];
  return code->inputs[0].view == code->domain && code->domain.back() == columns && sum.reduction == plan::SUM &&
         sum.view == row && ExpressionValues(*code).through(sum.value) == 0;
}

bool madeByLoop(const plan::Program &program, const std::vector<KernelCall> &calls, size_t reader, uint32_t root,
                const BufferUses &uses) {
  for (size_t s = reader; s-- > 0;)
    if (calls[s].kernel && std::ranges::any_of(program.steps(int(s)).kernel().outputs(),
                                               [&](uint32_t out) { return uses.root(out) == root; }))
      return isExpressionKernel(calls[s].name());
  return false;
}

/// The product with the sums, if it is one call of the library.
std::optional<CudaKernel> bindWithSums(const KernelCall &product, const TensorView &sums, const BindOptions &options) {
  std::vector<CudaKernel> choices = bindMatMul(product, options);
  if (choices.empty())
    return std::nullopt;
  CudaKernel kernel = std::move(choices.front());
  LibraryMatMul *action = onlyProduct(kernel);
  if (!action || action->what.batch != 1 || action->what.transposeB)
    return std::nullopt;
  action->what.epilogue = TESSERA_EPILOGUE_SUM;
  action->aux = at(sums.data);
  const uint64_t bits = action->aux.value | uint64_t(action->what.alignment);
  action->what.alignment = int32_t(bits & (~bits + 1));
  kernel.description += " + sums of columns";
  return kernel;
}

} // namespace

std::optional<JoinedKernel> columnSumsFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                           size_t product, const BufferUses &uses, const JoinedProgram &joined,
                                           const BindOptions &options, SumsOf which) {
  const KernelCall &call = calls[product];
  if (!call.kernel || call.name() != "matmul" || bytesPerElement(call.inputs[1].dtype) != 2)
    return std::nullopt;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (!view.layout.inner.empty())
        return std::nullopt;
  const TensorView &right = call.inputs[1];
  const uint32_t buffer = program.steps(int(product)).kernel().inputs(1);
  // What is written between both steps would be another tensor at the second.
  if (right.shape.size() != 2 || uses.writes(buffer) > (uses.kept(buffer) ? 0 : 1))
    return std::nullopt;
  if (which == SumsOf::NoLoop && madeByLoop(program, calls, product, uses.root(buffer), uses))
    return std::nullopt;
  const size_t begin = product - std::min(product, kWindow), end = std::min(calls.size(), product + kWindow + 1);
  for (size_t s = begin; s < end; ++s) {
    const KernelCall &other = calls[s];
    if (s == product || !other.kernel || joined.taken(s) || other.inputs.size() != 1 ||
        uses.root(program.steps(int(s)).kernel().inputs(0)) != uses.root(buffer) ||
        other.inputs[0].layout != right.layout || other.inputs[0].data != right.data ||
        other.inputs[0].elements() != right.elements() || !sumsRows(other, right.shape[1], call.outputs[0].dtype))
      continue;
    JoinedKernel both;
    both.set.steps = {std::min(s, product), std::max(s, product)};
    for (size_t step : both.set.steps)
      both.set.accesses.push_back(joined.accesses()[step]);
    const StepAccess &sums = joined.accesses()[s], &products = joined.accesses()[product];
    if (meet(sums.writes, products.reads) || meet(products.writes, sums.reads) || meet(sums.writes, products.writes))
      continue;
    std::optional<CudaKernel> bound = bindWithSums(call, other.outputs[0], options);
    if (!bound)
      continue;
    both.kernel = std::move(*bound);
    return both;
  }
  return std::nullopt;
}

} // namespace tessera::rt::cuda
