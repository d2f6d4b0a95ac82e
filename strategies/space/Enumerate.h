//===- Enumerate.h - every strategy of an operator -----------------------------------------------===//
//
// Each mesh axis cuts one factor that can be cut, carries a partial sum through the operator, or does nothing. Every
// combination over all axes is tried; several axes on one factor stay in mesh order. A factor is cut into plain
// blocks, and in each of its units (Units.h) that gives other blocks. Where results come out partial, one strategy
// hands them on so, and one reduces them at once. For an operator with one result there is also one strategy for every
// way to scatter the reduction over the result's dimensions.
//
//   "m k, k n -> m n | sum k" on one axis "x" that divides all:
//     -, m=x, n=x, k=x, k=x -> [-, -], k=x -> [x, -], k=x -> [-, x]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_ENUMERATE_H
#define TESSERA_STRATEGIES_SPACE_ENUMERATE_H

#include "strategies/space/Program.h"

namespace tessera::strategies {

/// All strategies, in a fixed order. Each one passes dist::verifyStrategy. The list ends after mostStrategies(mesh).
std::vector<Strategy> enumerateStrategies(const OperatorClass &cls, const Mesh &mesh);

/// Up to three axes it is more than any operator has: the gradient of a convolution's weights has 17,000. On four axes
/// that has 350,000, and a product 40,000, which take minutes and gigabytes to search.
size_t mostStrategies(const Mesh &mesh);

/// The ways to hand on results: `strategy` as it is and, if its results are partial, reduced and scattered.
std::vector<Strategy> resultVariants(const OperatorClass &cls, const Mesh &mesh, const Strategy &strategy);

/// Every sharding of a tensor that is not partial: each axis cuts one dimension or none. A dimension is cut into padded
/// blocks only if its bit is set in `mayPad`. `units` has the units of the dimensions that may be cut in units.
std::vector<Sharding> enumerateShardings(llvm::ArrayRef<int64_t> shape, const Mesh &mesh, uint64_t mayPad = 0,
                                         llvm::ArrayRef<llvm::SmallVector<int64_t, 2>> units = {}, size_t limit = 4096);

} // namespace tessera::strategies

#endif
