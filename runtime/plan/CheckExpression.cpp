// checkExpression: the body of a kernel "fused".
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"

namespace tessera::rt {
namespace {

/// A view has the domain's rank and, where it differs, the size 1; it covers the buffer exactly.
Status checkView(const plan::Plan &plan, const BufferRange &range, uint32_t buffer, const std::vector<int64_t> &view,
                 const std::vector<int64_t> &domain) {
  bool fits = view.size() == domain.size();
  for (size_t d = 0; fits && d < view.size(); ++d)
    fits = view[d] == domain[d] || view[d] == 1;
  if (!fits)
    return Status::error("the view " + shapeText(view) + " of " + bufferText(plan, buffer) +
                         " does not fit the domain " + shapeText(domain));
  if (elementsOf(view) != elementsOf(range.shape))
    return Status::error("the view " + shapeText(view) + " of " + bufferText(plan, buffer) +
                         " has another number of elements than " + shapeText(range.shape));
  return Status();
}

const plan::Attribute *find(const plan::Instruction &code, const char *name) {
  for (const plan::Attribute &attribute : code.attributes())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

Status checkInstruction(const plan::Instruction &code, size_t value, const std::vector<int64_t> &domain) {
  if (bytesPerElement(code.type()) == 0)
    return Status::error("has no valid type");
  for (uint32_t operand : code.operands())
    if (operand >= value)
      return Status::error("reads value " + std::to_string(operand) + ", which comes later");
  if (code.op() == "iota") {
    const plan::Attribute *dim = find(code, "dim");
    if (!dim || dim->value_case() != plan::Attribute::kI || dim->i() < 0 || dim->i() >= int64_t(domain.size()))
      return Status::error("has no valid attribute 'dim'");
  }
  int operands = code.op() == "constant" || code.op() == "iota" ? 0
                 : code.op() == "random"                        ? 1
                                                                : elementwiseOperands(code.op());
  if (operands < 0)
    return Status::error("is no elementwise operator");
  if (operands != code.operands_size())
    return Status::error("has " + std::to_string(code.operands_size()) + " operands, not " + std::to_string(operands));
  return Status();
}

} // namespace

Status checkExpression(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Kernel &kernel) {
  const plan::Expression &expression = kernel.expression();
  std::vector<int64_t> domain = toVector(expression.domain());
  if (!elementsOf(domain) || domain.size() > 16)
    return Status::error("the domain " + shapeText(domain) + " of its expression is not possible");
  if (expression.input_views_size() != kernel.inputs_size() || expression.results_size() != kernel.outputs_size())
    return Status::error("its expression has not one view per input and one result per output");
  for (int i = 0; i < kernel.inputs_size(); ++i)
    TESSERA_RETURN_IF_ERROR(checkView(plan, ranges[kernel.inputs(i)], kernel.inputs(i),
                                      toVector(expression.input_views(i).shape()), domain));
  size_t inputs = size_t(kernel.inputs_size());
  size_t values = inputs + size_t(expression.code_size());
  for (int j = 0; j < expression.code_size(); ++j)
    TESSERA_RETURN_IF_ERROR(checkInstruction(expression.code(j), inputs + size_t(j), domain)
                                .context("instruction " + std::to_string(j) + " " + quoted(expression.code(j).op()) +
                                         " of its expression"));
  for (int o = 0; o < kernel.outputs_size(); ++o) {
    const plan::Result &result = expression.results(o);
    std::vector<int64_t> view = toVector(result.shape());
    if (result.value() >= values)
      return Status::error("result " + std::to_string(o) + " of its expression is value " +
                           std::to_string(result.value()) + ", which does not exist");
    TESSERA_RETURN_IF_ERROR(checkView(plan, ranges[kernel.outputs(o)], kernel.outputs(o), view, domain));
    if (!plan::Reduction_IsValid(result.reduction()) || (result.reduction() == plan::NONE && view != domain))
      return Status::error("result " + std::to_string(o) +
                           " of its expression is smaller than the domain but reduces nothing");
  }
  return Status();
}

} // namespace tessera::rt
