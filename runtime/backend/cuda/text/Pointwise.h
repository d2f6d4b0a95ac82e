//===- Pointwise.h - the text of one point's arithmetic --------------------------------------------------===//
//
// What the instructions of an expression and its reductions are in CUDA C++, for every kernel that is generated from
// one.
//
//   instructionCode(mul, F32, {"v0", "v1"}, "")      ==  "op_mul(v0, v1)"
//   combined(SUM, "a", "b")                          ==  "op_add(a, b)"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_TEXT_POINTWISE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_TEXT_POINTWISE_H

#include "runtime/backend/ExpressionCode.h"

#include <array>
#include <string>

namespace tessera::rt::cuda {

/// The code for the value of `instr`. `from` is the type of its first operand. `address` is the index of an iota, or a
/// random number's index in the global tensor, both relative to the start of the domain.
std::string instructionCode(const Instr &instr, plan::DType from, const std::array<std::string, 3> &operands,
                            const std::string &address);
/// The code for a random number whose index is a multiple of four and `word`, an expression below 4. `quarter` is a
/// quarter of the multiple, relative to the start of the domain, which begins at a multiple of four. Points that have
/// the same expression for it draw together, if the compiler knows that.
std::string randomCode(const Instr &instr, const std::string &step, const std::string &quarter,
                       const std::string &word);

/// The code of a reduction whose result is of type `type`: its initial value, a step, and its result as stored in
/// memory.
std::string neutral(plan::Reduction reduction, plan::DType type);
std::string combined(plan::Reduction reduction, const std::string &a, const std::string &b);
std::string finished(plan::DType type, const std::string &sum);

} // namespace tessera::rt::cuda

#endif
