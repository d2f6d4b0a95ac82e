//===- LoopNest.h - one loop nest for operands in one layout ---------------------------------------------===//
//
// Takes an expression's operands as they lie in memory and finds the loop nest over which all of them
// move linearly: the domain cut at the layout's blocks, neighbours merged where no operand distinguishes
// them, and the innermost one or two loops taken as the row.
//
// A row has m * p elements. With channels in blocks p is a block, a divisor of 16: what depends on the channel alone
// are lanes. With channels last p is all channels, a multiple of 16: what depends on them alone is a period.
//
//   y[n, c, h, w] = x * s[c], blocks of 16 channels:  outer [n, c / 16], m = h w,   p = 16
//                             channels last:          outer [],          m = n h w, p = c
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_LOOPNEST_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_LOOPNEST_H

#include "runtime/backend/cpu/fused/Tape.h"

namespace tessera::rt {

struct LoopNest {
  Shape outer;
  int64_t m = 1, p = 1;
  std::vector<TapeOperand> inputs, results; // parallel to the expression's
  struct Index {                            // of an iota or random instruction
    Shape outer;
    int64_t strideM = 0, strideP = 0;
  };
  std::vector<Index> indices; // parallel to the code; empty entries elsewhere
  std::vector<Shape> terms;   // ordered sums: how a term's number moves with `outer`, parallel to the results
};

/// Whether the call has sums whose terms have an order (kPartialSums).
bool isOrdered(const ExpressionCode &code, const KernelCall &call);

/// Nothing where there is no such loop nest, or where it would meet the terms of an ordered sum in another order.
std::optional<LoopNest> buildLoopNest(const ExpressionCode &code, const KernelCall &call);

} // namespace tessera::rt

#endif
