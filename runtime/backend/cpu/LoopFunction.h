//===- LoopFunction.h - a loop as what a convolution can do as it stores -----------------------------------===//
//
// A library's convolution applies simple functions to its results while they are in registers. Here is which loops are
// such functions of one of their inputs u:
//
//   fused(t, b, r): v = relu(t + b + r)      with t [8, 64, 7, 7], b [1, 64, 1, 1], r [8, 64, 7, 7]
//   =>  perChannel = 1, added = 2, functions = {Relu}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_LOOPFUNCTION_H
#define TESSERA_RUNTIME_BACKEND_CPU_LOOPFUNCTION_H

#include "runtime/backend/ExpressionCode.h"

#include <optional>

namespace tessera::rt {

/// f(input + perChannel[channel] + added), where f is `functions` one after the other. All in F32.
struct LoopFunction {
  enum class Kind : uint8_t {
    Relu,      // max(x, 0)
    Clip,      // min(max(x, a), b)
    Linear,    // a x + b
    Sigmoid,   // 1 / (1 + exp(-x))
    Swish,     // x sigmoid(x)
    HardSwish, // x min(max(x / 6 + 1 / 2, 0), 1)
  };
  struct Function {
    Kind kind;
    double a = 0, b = 0;
  };
  std::optional<size_t> perChannel, added; // inputs of the loop
  std::vector<Function> functions;
};

/// What the loop computes of its input number `input`, if it is such a function, stores nothing else, and the input has
/// the shape of the result with channels in dimension 1.
std::optional<LoopFunction> loopFunctionOf(const ExpressionCode &code, size_t input);

} // namespace tessera::rt

#endif
