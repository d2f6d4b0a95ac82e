//===- Enumerate.h - every strategy of an operator -----------------------------------------------===//
//
// Each mesh axis goes to one factor that can be cut, to a partial sum that passes through, or to none,
// jointly over all axes; several axes on one factor stay in mesh order. Where results come out partial there
// is one strategy that hands them on so, one that reduces them at once, and, for an operator with one result,
// one for every way to scatter the reduction over its dimensions.
//
//   "m k, k n -> m n | sum k" on one axis "x" that divides all:
//     -, m=x, n=x, k=x, k=x -> [-, -], k=x -> [x, -], k=x -> [-, x]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_ENUMERATE_H
#define TESSERA_STRATEGIES_SPACE_ENUMERATE_H

#include "strategies/space/Program.h"

namespace tessera::strategies {

/// In a fixed order, every one valid (dist::verifyStrategy). Stops after `limit` strategies: only meshes of
/// many axes have more than a few hundred.
std::vector<Strategy> enumerateStrategies(const OperatorClass &cls, const Mesh &mesh, size_t limit = 4096);

/// The ways to hand on results: `strategy` as it is and, if its results are partial, reduced and scattered.
std::vector<Strategy> resultVariants(const OperatorClass &cls, const Mesh &mesh, const Strategy &strategy);

/// Every sharding of a tensor without anything owed: each axis cuts one dimension or none; into padded blocks
/// only the dimensions whose bit is set in `mayPad`.
std::vector<Sharding> enumerateShardings(llvm::ArrayRef<int64_t> shape, const Mesh &mesh, uint64_t mayPad = 0,
                                         size_t limit = 4096);

} // namespace tessera::strategies

#endif
