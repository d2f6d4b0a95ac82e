#include "runtime/backend/cpu/LoopFunction.h"

#include "runtime/backend/ExpressionValues.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {
namespace {

using Kind = LoopFunction::Kind;

class Functions : public ExpressionValues {
public:
  using ExpressionValues::ExpressionValues;

  struct WithConstant {
    uint32_t other;
    double constant;
  };
  /// The operands of `op` in either order, where one is a constant.
  std::optional<WithConstant> withConstant(uint32_t v, Op op) const {
    if (is(v, op))
      for (size_t i = 0; i < 2; ++i)
        if (const std::optional<double> c = constant(operand(v, i)))
          return WithConstant{operand(v, 1 - i), *c};
    return std::nullopt;
  }

  /// v = a u + b, by at most one product and one sum.
  std::optional<LoopFunction::Function> linear(uint32_t v, uint32_t u) const {
    LoopFunction::Function f{Kind::Linear, 1, 0};
    if (const auto sum = withConstant(v, Op::Add)) {
      f.b = sum->constant;
      v = sum->other;
    }
    if (const auto product = withConstant(v, Op::Mul)) {
      f.a = product->constant;
      v = product->other;
    }
    return v == u ? std::optional(f) : std::nullopt;
  }

  /// v = min(relu(w), 1): w.
  std::optional<uint32_t> clipped(uint32_t v) const {
    const auto least = withConstant(v, Op::Min);
    return least && least->constant == 1 && is(least->other, Op::Relu) ? std::optional(operand(least->other, 0))
                                                                       : std::nullopt;
  }

  /// v as functions of u, one after the other.
  std::optional<std::vector<LoopFunction::Function>> functions(uint32_t v, uint32_t u) const {
    using List = std::vector<LoopFunction::Function>;
    if (v == u)
      return List();
    if (is(v, Op::Relu) && operand(v, 0) == u)
      return List{{Kind::Relu}};
    if (is(v, Op::Sigmoid) && operand(v, 0) == u)
      return List{{Kind::Sigmoid}};
    if (const auto least = withConstant(v, Op::Min);
        least && least->constant > 0 && is(least->other, Op::Relu) && operand(least->other, 0) == u)
      return List{{Kind::Clip, 0, least->constant}};
    if (const auto inner = clipped(v))
      if (const auto line = linear(*inner, u))
        return List{*line, {Kind::Clip, 0, 1}};
    if (is(v, Op::Mul))
      for (size_t i = 0; i < 2; ++i) {
        const uint32_t gate = operand(v, 1 - i);
        if (operand(v, i) != u)
          continue;
        if (is(gate, Op::Sigmoid) && operand(gate, 0) == u)
          return List{{Kind::Swish}};
        const std::optional<uint32_t> inner = clipped(gate);
        const auto line = inner ? linear(*inner, u) : std::nullopt;
        if (line && std::abs(line->a - 1. / 6) < 1e-7 && line->b == 0.5)
          return List{{Kind::HardSwish}};
      }
    return std::nullopt;
  }
};

} // namespace

std::optional<LoopFunction> loopFunctionOf(const ExpressionCode &code, size_t input) {
  const Shape &domain = code.domain;
  if (domain.size() < 3 || code.results.size() != 1 || code.inputs[input].view != domain ||
      code.results[0].reduction != plan::NONE || code.results[0].view != domain || code.results[0].type != plan::F32)
    return std::nullopt;
  if (std::ranges::any_of(code.inputs, [](const ExpressionInput &i) { return i.type != plan::F32; }) ||
      std::ranges::any_of(code.code, [](const Instr &i) { return i.type != plan::F32 || i.rounds; }))
    return std::nullopt;
  Shape channel(domain.size(), 1);
  channel[1] = domain[1];
  const Functions values(code);
  LoopFunction loop;
  uint32_t u = uint32_t(input);
  for (uint32_t v = uint32_t(code.inputs.size()); v < code.valueCount(); ++v) {
    if (!values.is(v, Op::Add) || (values.operand(v, 0) != u && values.operand(v, 1) != u))
      continue;
    const uint32_t other = values.operand(v, values.operand(v, 0) == u ? 1 : 0);
    if (other >= code.inputs.size() || other == input)
      break;
    const Shape &view = code.inputs[other].view;
    std::optional<size_t> &place = view == channel ? loop.perChannel : loop.added;
    if (place || (view != channel && view != domain))
      break;
    place = other;
    u = v;
  }
  if (code.inputs.size() != 1u + (loop.perChannel ? 1 : 0) + (loop.added ? 1 : 0))
    return std::nullopt;
  std::optional<std::vector<LoopFunction::Function>> functions =
      values.functions(values.through(code.results[0].value), u);
  if (!functions)
    return std::nullopt;
  loop.functions = std::move(*functions);
  return loop;
}

} // namespace tessera::rt
