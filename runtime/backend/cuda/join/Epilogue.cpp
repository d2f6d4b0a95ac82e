#include "runtime/backend/cuda/join/Epilogue.h"

#include "runtime/backend/ExpressionValues.h"
#include "runtime/device/DeviceApi.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::rt::cuda {
namespace {

/// Questions about the functions that epilogues have.
class Functions : public ExpressionValues {
public:
  using ExpressionValues::ExpressionValues;

  /// A value as a product: v = factor * the other factors. `u`, and values that are no products, are factors as a
  /// whole.
  struct Product {
    double factor = 1;
    std::vector<uint32_t> others;
  };
  Product factors(uint32_t v, uint32_t u, int depth = 0) const {
    Product p;
    auto add = [&](const Product &part) {
      p.factor *= part.factor;
      p.others.insert(p.others.end(), part.others.begin(), part.others.end());
    };
    if (v != u && depth < 8) {
      if (std::optional<double> c = constant(v)) {
        p.factor = *c;
        return p;
      }
      if (is(v, Op::Mul)) {
        add(factors(operand(v, 0), u, depth + 1));
        add(factors(operand(v, 1), u, depth + 1));
        return p;
      }
      if (is(v, Op::Pow) && operand(v, 0) == u && constant(operand(v, 1)) == 3.0) {
        p.others = {u, u, u};
        return p;
      }
    }
    p.others = {v};
    return p;
  }

  /// The other operand of a sum of which one operand is `known`.
  std::optional<uint32_t> beside(uint32_t sum, uint32_t known) const {
    if (!is(sum, Op::Add))
      return std::nullopt;
    const uint32_t a = operand(sum, 0), b = operand(sum, 1);
    return a == known ? std::optional(b) : b == known ? std::optional(a) : std::nullopt;
  }

  static bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

  /// v = u / 2 * (1 + tanh(sqrt(2 / pi) * (u + 0.044715 u^3)))
  bool isGelu(uint32_t v, uint32_t u) const {
    const Product p = factors(v, u);
    if (p.others.size() != 2 || !near(p.factor, 0.5) || (p.others[0] != u && p.others[1] != u))
      return false;
    const uint32_t gate = p.others[0] == u ? p.others[1] : p.others[0];
    if (!is(gate, Op::Add))
      return false;
    const uint32_t a = operand(gate, 0), b = operand(gate, 1);
    const uint32_t tanh = constant(a) ? b : a;
    if (constant(constant(a) ? a : b) != 1.0 || !is(tanh, Op::Tanh))
      return false;
    const Product argument = factors(operand(tanh, 0), u);
    if (argument.others.size() != 1 || !near(argument.factor, std::sqrt(2 / std::numbers::pi)))
      return false;
    const std::optional<uint32_t> cubic = beside(argument.others[0], u);
    if (!cubic)
      return false;
    const Product cube = factors(*cubic, u);
    return cube.others == std::vector<uint32_t>{u, u, u} && near(cube.factor, 0.044715);
  }
};

} // namespace

std::optional<Epilogue> epilogueOf(const ExpressionCode &code, size_t input) {
  if (code.results.empty() || code.results.size() > 2 || code.domain.empty() || code.inputs[input].view != code.domain)
    return std::nullopt;
  const plan::DType type = code.results[0].type;
  for (const ExpressionResult &r : code.results)
    if (r.reduction != plan::NONE || r.view != code.domain || r.type != type)
      return std::nullopt;
  for (const Instr &i : code.code)
    if (!isFloat(i.type) || valueClass(i.type) != ValueClass::F32)
      return std::nullopt;
  const Functions values(code);
  Shape row(code.domain.size(), 1);
  row.back() = code.domain.back();
  // The value that the function is applied to: the product, or its sum with an input that is a row.
  struct Start {
    uint32_t value;
    std::optional<size_t> bias;
  };
  std::vector<Start> starts = {{uint32_t(input), std::nullopt}};
  for (uint32_t v = uint32_t(code.inputs.size()); v < code.valueCount(); ++v)
    if (std::optional<uint32_t> other = values.beside(v, uint32_t(input));
        other && *other < code.inputs.size() && *other != input && code.inputs[*other].view == row &&
        code.inputs[*other].type == type)
      starts.push_back({v, *other});
  for (const Start &start : starts)
    for (size_t r = 0; r < code.results.size(); ++r) {
      const uint32_t v = values.through(code.results[r].value);
      Epilogue e;
      e.result = r;
      e.bias = start.bias;
      e.bits = start.bias ? TESSERA_EPILOGUE_BIAS : 0;
      if (values.is(v, Op::Relu) && values.operand(v, 0) == start.value)
        e.bits |= TESSERA_EPILOGUE_RELU;
      else if (v != start.value && values.isGelu(v, start.value))
        e.bits |= TESSERA_EPILOGUE_GELU;
      else if (v != start.value)
        continue;
      if (code.results.size() == 2) {
        if (v == start.value || values.through(code.results[1 - r].value) != start.value)
          continue;
        e.kept = 1 - r;
        e.bits |= TESSERA_EPILOGUE_KEEP;
      }
      // Every input has its place; without any bit it is a conversion, which the product does as it stores.
      if (code.inputs.size() == (start.bias ? 2u : 1u))
        return e;
    }
  return std::nullopt;
}

/// Both as one call, if they can be; `input` is the product's place among the loop's operands.
static std::optional<CudaKernel> bindProductWithLoop(const KernelCall &product, const KernelCall &loop, size_t input,
                                                     const BindOptions &options) {
  for (const KernelCall *call : {&product, &loop})
    for (const std::vector<TensorView> *views : {&call->inputs, &call->outputs})
      for (const TensorView &view : *views)
        if (!view.layout.inner.empty())
          return std::nullopt;
  Result<ExpressionCode> code = lowerExpression(loop);
  const std::optional<Epilogue> e = code ? epilogueOf(*code, input) : std::nullopt;
  // The library's ReLU is a maximum with 0, which NaN may lose.
  if (!e || (options.keepNan && (e->bits & TESSERA_EPILOGUE_RELU)))
    return std::nullopt;
  TensorView y = loop.outputs[e->result];
  if (y.elements() != product.outputs[0].elements() || !libraryTypes(product.inputs[0].dtype, y.dtype) ||
      product.inputs[1].dtype != product.inputs[0].dtype || code->domain.back() != product.outputs[0].shape.back())
    return std::nullopt;
  y.shape = product.outputs[0].shape;
  std::vector<CudaKernel> choices = bindMatMul(product, options, &y);
  if (choices.empty())
    return std::nullopt;
  CudaKernel kernel = std::move(choices.front());
  LibraryMatMul *action = onlyProduct(kernel);
  // What is kept lies as the result does.
  if (!action || (e->kept && action->what.ldY != loop.outputs[*e->kept].pitch()))
    return std::nullopt;
  action->what.epilogue = e->bits;
  auto place = [&](const TensorView &view) {
    const Place p = at(view.data);
    const uint64_t bits = p.value | uint64_t(action->what.alignment);
    action->what.alignment = int32_t(bits & (~bits + 1));
    return p;
  };
  if (e->bias)
    action->bias = place(loop.inputs[*e->bias]);
  if (e->kept)
    action->aux = place(loop.outputs[*e->kept]);
  const std::pair<int32_t, const char *> names[] = {
      {TESSERA_EPILOGUE_BIAS, " + bias"}, {TESSERA_EPILOGUE_RELU, " + relu"}, {TESSERA_EPILOGUE_GELU, " + gelu"}};
  for (const auto &[bit, name] : names)
    if (e->bits & bit)
      kernel.description += name;
  return kernel;
}

std::optional<JoinedKernel> productFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                        size_t first, const BufferUses &uses, const JoinedProgram &joined,
                                        const BindOptions &options) {
  auto kernel = [&](size_t s) -> const plan::Kernel & { return program.steps(int(s)).kernel(); };
  if (!calls[first].kernel || calls[first].name() != "matmul")
    return std::nullopt;
  const uint32_t t = kernel(first).outputs(0);
  if (uses.kept(t) || uses.reads(t) != 1 || uses.writes(t) != 1)
    return std::nullopt;
  for (size_t s = first + 1; s < calls.size(); ++s) {
    if (!calls[s].kernel)
      continue;
    const auto &inputs = kernel(s).inputs();
    const auto found = std::find(inputs.begin(), inputs.end(), t);
    if (found == inputs.end())
      continue;
    const auto input = size_t(found - inputs.begin());
    if (!isExpressionKernel(calls[s].name()) || joined.taken(s))
      return std::nullopt;
    JoinedKernel both;
    both.set.steps = {first, s};
    both.set.accesses = {joined.accesses()[first], joined.accesses()[s]};
    StepAccess &product = both.set.accesses[0], &loop = both.set.accesses[1];
    product.writes.clear();
    loop.reads.erase(loop.reads.begin() + static_cast<std::ptrdiff_t>(input));
    if (meet(loop.writes, product.reads))
      return std::nullopt;
    std::optional<CudaKernel> bound = bindProductWithLoop(calls[first], calls[s], input, options);
    if (!bound)
      return std::nullopt;
    both.kernel = std::move(*bound);
    return both;
  }
  return std::nullopt;
}

} // namespace tessera::rt::cuda
