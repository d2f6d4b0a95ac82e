//===- Reduce.h - the arithmetic of reductions -----------------------------------------------===//
//
// All transports on the host reduce with this function, so that they give the same bits. Elements are combined in group
// order. F16 and BF16 accumulate in F32 and are rounded once at the end. Integers wrap. A sum of BOOL is "or". MAX and
// MIN propagate NaN.
//
//   const void *in[] = {a, b, c};
//   void *out[] = {x, y};
//   reduceTo(in, 3, out, 2, 10, plan::F32, plan::SUM);  // x[i] = y[i] = (a[i] + b[i]) + c[i]
//
// The function works block by block, so that partial results stay in the cache for any number of inputs.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_REDUCE_H
#define TESSERA_RUNTIME_COMM_REDUCE_H

#include "runtime/plan/ElementType.h"
#include "runtime/plan/plan.pb.h"

#include <cstddef>

namespace tessera::rt {

/// Writes the reduction of `n` >= 1 inputs to each of `outs` >= 1 outputs. An output may be one of the inputs (the same
/// address), but not overlap one in another way.
void reduceTo(const void *const *in, int n, void *const *out, int outs, size_t count, plan::DType dtype,
              plan::Reduction reduction);

} // namespace tessera::rt

#endif
