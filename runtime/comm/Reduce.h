//===- Reduce.h - the arithmetic of reductions -----------------------------------------------===//
//
// All transports on the host reduce with this function, so that they give the same bits. Integers wrap. A sum of BOOL
// is "or". MAX and MIN propagate NaN. There are two orders:
//
//   in a row   ((a + b) + c) + d: the order of the members. F16 and BF16 accumulate in F32 and are rounded once.
//   as a tree  (a + b) + (c + d): neighbours are added, then neighbours of the sums, and so on; what has no neighbour
//              waits for the next level. Every sum is rounded to the type. If a member's input is itself such a tree
//              over 2^k parts, and every other member's as well (the last one's over as many or fewer), the result has
//              the bits of one tree over all parts, so it does not depend on how the parts were shared out.
//
// Members may be in runs of neighbours. Then each run is reduced, the result is rounded to the type, and these results
// are reduced: (a + b) + (c + d) for four members in runs of two. A tree is the same tree if the run is a power of two;
// else it pays no heed to runs.
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

/// How elements of several members become one.
struct Reducer {
  plan::Reduction reduction = plan::NONE;
  bool tree = false;

  Reducer(plan::Reduction reduction, bool tree = false) : reduction(reduction), tree(tree) {}
  bool operator==(const Reducer &) const = default;
};

/// Writes the reduction of `n` >= 1 inputs to each of `outs` >= 1 outputs. An output may be one of the inputs (the same
/// address), but not overlap one in another way.
void reduceTo(const void *const *in, int n, void *const *out, int outs, size_t count, plan::DType dtype,
              Reducer reducer);
/// The same, by runs of `run` members. `run` divides `n`.
void reduceByRuns(const void *const *in, int n, int run, void *const *out, int outs, size_t count, plan::DType dtype,
                  Reducer reducer);
/// Whether it may be done run by run: whether there are several runs of several members that the order knows.
bool goesByRuns(int n, int run, Reducer reducer);
/// Whether the result does not depend on the order, whatever the numbers.
bool anyOrder(int n, plan::DType dtype, plan::Reduction reduction);

} // namespace tessera::rt

#endif
