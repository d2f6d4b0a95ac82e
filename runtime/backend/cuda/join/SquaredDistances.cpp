#include "runtime/backend/cuda/join/SquaredDistances.h"

#include "runtime/backend/ExpressionValues.h"
#include "runtime/backend/cuda/text/Pointwise.h"

namespace tessera::rt::cuda {

bool isWhole(const ExpressionCode &code, uint32_t value, size_t input) {
  return ExpressionValues(code).through(value) == input && code.inputs[input].view == code.domain;
}

std::optional<SquaredDistances> squaredDistancesOf(const ExpressionCode &code) {
  if (code.results.size() != 1 || code.inputs.size() != 2 || code.results[0].reduction != plan::SUM)
    return std::nullopt;
  const ExpressionValues values(code);
  const uint32_t square = values.through(code.results[0].value);
  if (!values.is(square, Op::Mul) || values.operand(square, 0) != values.operand(square, 1))
    return std::nullopt;
  const uint32_t difference = values.operand(square, 0);
  if (!values.is(difference, Op::Sub))
    return std::nullopt;
  for (const uint32_t v : {square, difference})
    if (valueClass(code.typeOf(v)) != ValueClass::F32)
      return std::nullopt;
  for (const size_t x : {0, 1}) {
    const size_t centre = 1 - x;
    for (const size_t o : {0, 1})
      if (isWhole(code, values.operand(difference, o), x) && values.operand(difference, 1 - o) == centre &&
          code.inputs[centre].view == code.results[0].view)
        return SquaredDistances{x, centre};
  }
  return std::nullopt;
}

void addSquares(ExpressionCode &code, size_t sum) {
  ExpressionResult squares = code.results[sum];
  Instr wide;
  wide.op = Op::Cast;
  wide.type = plan::F64;
  wide.operands[0] = squares.value;
  wide.arity = 1;
  code.code.push_back(wide);
  Instr square;
  square.op = Op::Mul;
  square.type = plan::F64;
  square.operands[0] = square.operands[1] = code.valueCount() - 1;
  square.arity = 2;
  code.code.push_back(square);
  squares.value = code.valueCount() - 1;
  squares.type = plan::F64;
  code.results.push_back(squares);
}

PointLoop distancesFromSums(const ExpressionCode &code, const SquaredDistances &distances, int64_t n, size_t sum,
                            size_t squares) {
  const plan::DType centre = code.inputs[distances.centre].type, type = code.results[0].type;
  auto total = [](size_t number) { return "total" + std::to_string(number); };
  PointLoop loop;
  loop.parameters = {{std::string("const ") + memoryType(centre), "centre"}, {memoryType(type), "distances"}};
  loop.body = "const double m = (double)" + loadCode(centre, "centre[i]") + ";\ndistances[i] = " +
              finished(type, "op_max(" + total(squares) + " - m * (2.0 * " + total(sum) + " - " + std::to_string(n) +
                                 ".0 * m), 0.0)") +
              ";\n";
  return loop;
}

} // namespace tessera::rt::cuda
