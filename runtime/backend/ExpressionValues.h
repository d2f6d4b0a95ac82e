//===- ExpressionValues.h - what the values of an expression are --------------------------------------===//
//
//   v0 = input, v1 = cast f32 v0, v2 = mul v1 v1:   is(2, Op::Mul), operand(2, 0) == 0
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_EXPRESSIONVALUES_H
#define TESSERA_RUNTIME_BACKEND_EXPRESSIONVALUES_H

#include "runtime/backend/ExpressionCode.h"

#include <optional>

namespace tessera::rt {

/// Of an expression that outlives it.
class ExpressionValues {
public:
  explicit ExpressionValues(const ExpressionCode &code) : code_(code) {}

  /// Conversions between floating-point types change nothing inside a loop, but those that round.
  uint32_t through(uint32_t v) const {
    while (const Instr *i = instr(v)) {
      if (i->op != Op::Cast || i->rounds || !isFloat(i->type) || !isFloat(code_.typeOf(i->operands[0])))
        break;
      v = i->operands[0];
    }
    return v;
  }
  /// The instruction that makes the value; null for an input.
  const Instr *instr(uint32_t v) const {
    return v < code_.inputs.size() ? nullptr : &code_.code[v - code_.inputs.size()];
  }
  bool is(uint32_t v, Op op) const { return instr(v) && instr(v)->op == op; }
  uint32_t operand(uint32_t v, size_t i) const { return through(instr(v)->operands[i]); }
  std::optional<double> constant(uint32_t v) const {
    return is(v, Op::Constant) ? std::optional(instr(v)->immediate) : std::nullopt;
  }

private:
  const ExpressionCode &code_;
};

} // namespace tessera::rt

#endif
