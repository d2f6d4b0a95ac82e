//===- ExpressionCode.h - one typed form for all elementwise work -----------------------------===//
//
// "fused" carries an expression; the elementwise operators, broadcast and the reductions are
// expressions of one instruction or none. lowerExpression turns them all into the same checked
// form, so that a backend needs one engine for the lot:
//
//   add(f32[2, 3], f32[3])            domain [2, 3], inputs [2, 3] and [1, 3],
//                                     code {add v0 v1}, result v2
//   reduce_sum(f32[2, 3], dims 1)     domain [2, 3], input [2, 3], no code,
//                                     result v0 summed to [2, 1]
//
// Values are held in one of three classes, as plan.proto says: F32 (for F32, F16, BF16), F64 and
// I64 (integers and BOOL).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_EXPRESSIONCODE_H
#define TESSERA_RUNTIME_BACKEND_EXPRESSIONCODE_H

#include "runtime/backend/Kernel.h"

#include <array>

namespace tessera::rt {

enum class Op : uint8_t {
#define TESSERA_ELEMENTWISE(NAME, ...) NAME,
#include "runtime/support/Elementwise.def"
  Cast,
  Constant,
  Iota,
  Random
};

enum class ValueClass : uint8_t { F32, F64, I64 };
inline ValueClass valueClass(plan::DType t) {
  return t == plan::F64 ? ValueClass::F64 : isFloat(t) ? ValueClass::F32 : ValueClass::I64;
}

struct Instr {
  Op op = Op::Add;
  plan::DType type = plan::F32; // of the result
  std::array<uint32_t, 3> operands = {0, 0, 0};
  uint32_t arity = 0;
  bool rounds = false;           // to 16 bits: the value is what memory would hold
  double immediate = 0;          // Constant
  size_t dim = 0;                // Iota
  int64_t start = 0;             // Iota
  uint64_t seed = 0, stream = 0; // Random
  Shape globalStrides;           // Random: row-major strides of the global shape
  int64_t globalOffset = 0;      // Random: index of the box's first element
};

struct ExpressionInput {
  plan::DType type;
  Shape view;
  int64_t pitch = 0; // elements from one row of the view to the next; 0: as many as a row has
};
struct ExpressionResult {
  uint32_t value = 0;
  plan::Reduction reduction = plan::NONE;
  plan::DType type; // of the output buffer
  Shape view;
  int64_t pitch = 0; // as an input's
};

struct ExpressionCode {
  Shape domain;
  std::vector<ExpressionInput> inputs;
  std::vector<Instr> code;
  std::vector<ExpressionResult> results;

  uint32_t valueCount() const { return uint32_t(inputs.size() + code.size()); }
  plan::DType typeOf(uint32_t value) const {
    return value < inputs.size() ? inputs[value].type : code[value - inputs.size()].type;
  }
};

/// In a reproducible plan (KernelCall::exact) a sum of floating-point numbers has an order, which every engine keeps.
/// The terms of a result are numbered row-major in the dimensions that are summed. A block is kTermsOfBlock neighbours.
/// In it, term t is added to partial sum t mod kPartialSums, in ascending order, and the block's sum is
/// (p0 + p1) + (p2 + p3), all in the type of the terms. Blocks are added in F64, in ascending order, and the result is
/// rounded once. Neither what is kept nor a layout nor threads are part of this. Four: an addition takes about four
/// cycles. 256: F32 loses no more digits than in the loops of other plans, and F64 takes no time.
inline constexpr int64_t kPartialSums = 4, kTermsOfBlock = 256;
/// How the number of a term moves with the dimensions of `domain` if a sum's result has the view `view`.
///   domain [8, 3, 5], view [1, 3, 1] -> [5, 0, 1]
Shape termStrides(const Shape &domain, const Shape &view);
/// The sum of a block.
template <typename T> T sumOfPartials(T p0, T p1, T p2, T p3) { return T(T(p0 + p1) + T(p2 + p3)); }

/// Whether `name` is a kernel that lowerExpression understands: fused, an elementwise operator,
/// broadcast, reduce_sum, reduce_max or reduce_min.
bool isExpressionKernel(const std::string &name);
/// All such names, sorted.
std::vector<std::string> expressionKernelNames();

/// The checked expression of a call, or what is wrong with it.
Result<ExpressionCode> lowerExpression(const KernelCall &call);

} // namespace tessera::rt

#endif
