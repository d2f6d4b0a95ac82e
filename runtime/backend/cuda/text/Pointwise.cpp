#include "runtime/backend/cuda/text/Pointwise.h"

#include "runtime/backend/Philox.h"
#include "runtime/backend/cuda/text/Source.h"

#include <cmath>
#include <cstring>
#include <map>

namespace tessera::rt::cuda {
namespace {

std::string hex(uint64_t bits) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(bits));
  return text;
}

std::string floatLiteral(double value, bool wide) {
  if (wide) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return "__longlong_as_double((i64)" + hex(bits) + "ull)";
  }
  float narrow = float(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, 4);
  return "__uint_as_float(" + hex(bits) + "u)";
}

std::string intLiteral(int64_t value) { return "(i64)" + hex(uint64_t(value)) + "ull"; }

int64_t toInt(double x) {
  if (x != x)
    return 0;
  if (x >= 0x1p63)
    return INT64_MAX;
  return x < -0x1p63 ? INT64_MIN : int64_t(x);
}

std::string functionName(Op op) {
  static const std::map<Op, std::string> names = {
#define TESSERA_ELEMENTWISE(NAME, TEXT, ...) {Op::NAME, "op_" TEXT},
#include "runtime/support/Elementwise.def"
  };
  return names.at(op);
}

/// The value as memory would hold it, where the instruction rounds.
std::string roundedCode(const Instr &instr, const std::string &value) {
  return instr.rounds ? loadCode(instr.type, storeCode(instr.type, "(" + value + ")")) : value;
}

} // namespace

std::string randomCode(const Instr &instr, const std::string &step, const std::string &quarter,
                       const std::string &word) {
  return roundedCode(instr, std::string("(") + valueType(valueClass(instr.type)) + ")uniform_word(" +
                                hex(philoxKey(instr.seed, instr.stream)) + "ull, " +
                                hex(uint64_t(instr.globalOffset / 4)) + "ull + (u64)(" + quarter + "), " + word +
                                ", (u64)" + step + ")");
}

std::string instructionCode(const Instr &instr, plan::DType from, const std::array<std::string, 3> &operands,
                            const std::string &address) {
  auto operand = [&](uint32_t i) -> const std::string & { return operands[i]; };
  const ValueClass cls = valueClass(instr.type);
  const std::string type = valueType(cls);
  std::string text;
  switch (instr.op) {
  case Op::Cast: {
    if (instr.type == plan::BOOL)
      text = "(i64)(" + operand(0) + " != 0)";
    else if (cls == ValueClass::I64 && valueClass(from) != ValueClass::I64)
      text = "to_int(" + operand(0) + ")";
    else
      text = "(" + type + ")" + operand(0);
    break;
  }
  case Op::Select:
    text = operand(0) + " ? " + operand(1) + " : " + operand(2);
    break;
  case Op::Constant:
    text = cls == ValueClass::I64 ? intLiteral(toInt(instr.immediate))
                                  : floatLiteral(instr.immediate, cls == ValueClass::F64);
    break;
  case Op::Iota:
    text = "(" + type + ")op_add(" + intLiteral(instr.start) + ", (i64)(" + address + "))";
    break;
  case Op::Random:
    text = "(" + type + ")uniform(" + hex(philoxKey(instr.seed, instr.stream)) + "ull, " +
           hex(uint64_t(instr.globalOffset)) + "ull + (u64)(" + address + "), (u64)" + operand(0) + ")";
    break;
  default:
    text = functionName(instr.op) + "(" + operand(0) + (instr.arity > 1 ? ", " + operand(1) : "") + ")";
  }
  text = roundedCode(instr, text);
  // An integer of a narrow type wraps when it is computed.
  if (cls == ValueClass::I64 && instr.type == plan::BOOL)
    return "(i64)((" + text + ") != 0)";
  if (cls == ValueClass::I64 && instr.type != plan::I64)
    return std::string("(i64)(") + memoryType(instr.type) + ")(" + text + ")";
  return text;
}

std::string neutral(plan::Reduction reduction, plan::DType type) {
  const bool integer = valueClass(type) == ValueClass::I64;
  if (reduction == plan::SUM)
    return integer ? "0" : "0.0";
  if (integer)
    return intLiteral(reduction == plan::MAX ? INT64_MIN : INT64_MAX);
  return floatLiteral(reduction == plan::MAX ? -INFINITY : INFINITY, true);
}

std::string combined(plan::Reduction reduction, const std::string &a, const std::string &b) {
  const char *function = reduction == plan::SUM ? "op_add" : reduction == plan::MAX ? "op_max" : "op_min";
  return std::string(function) + "(" + a + ", " + b + ")";
}

std::string finished(plan::DType type, const std::string &sum) {
  return storeCode(type, std::string("((") + valueType(valueClass(type)) + ")" + sum + ")");
}

} // namespace tessera::rt::cuda
