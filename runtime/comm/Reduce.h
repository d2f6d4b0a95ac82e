//===- Reduce.h - the arithmetic of reductions -----------------------------------------------===//
//
// The one place that says what "reduction over members" computes, so that every transport on the
// host gives the same bits: elements are combined in group order, F16 and BF16 accumulate in F32
// and are rounded once at the end, integers wrap, BOOL sums as "or", MAX and MIN hand a NaN on.
//
//   const void *in[] = {a, b, c};
//   void *out[] = {x, y};
//   reduceTo(in, 3, out, 2, 10, plan::F32, plan::SUM);  // x[i] = y[i] = (a[i] + b[i]) + c[i]
//
// Works block by block, so that the partial results stay in the cache however many inputs there
// are.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_REDUCE_H
#define TESSERA_RUNTIME_COMM_REDUCE_H

#include "runtime/plan/ElementType.h"
#include "runtime/plan/plan.pb.h"

#include <cstddef>

namespace tessera::rt {

/// Writes the reduction of `n` >= 1 inputs to each of `outs` >= 1 outputs. An output may be one of
/// the inputs (the same address), not a shifted part of one.
void reduceTo(const void *const *in, int n, void *const *out, int outs, size_t count, plan::DType dtype,
              plan::Reduction reduction);

} // namespace tessera::rt

#endif
