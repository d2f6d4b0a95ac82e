//===- LeafRule.h - rules whose sums have an order that does not depend on the mesh ------------===//
//
// In a reproducible module (docs/adr/0021-equal-bits.md) a sum over a factor is computed in leaves: equal ranges of the
// factor, as many on every mesh, whose results are added as one balanced binary tree. A rank holds whole leaves.
// giveLeaves() makes a rule stricter, and whoever obeys a rule obeys the order of sums.
//
//   "m k, k n -> m n | sum k | linear 0 1" with k = 12 and at most 8 leaves becomes
//   "m (k k.leaf), (k k.leaf) n -> m n | sum k | whole k.leaf" with k = 4, k.leaf = 3
//
// So the factor k counts leaves: it is cut in 2 or 4, and never padded.
//
// A rank computes its leaves one after the other. A leaf is then a rank along one more axis of the mesh, the most minor
// one, that this rank plays in turn. So what cuts an operator for a rank also cuts it for a leaf:
//
//   k in 4 leaves, cut over data=2: mesh data=2,(leaves)=2, strategy k = data+(leaves)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_LEAVES_LEAFRULE_H
#define TESSERA_DIALECTS_DIST_LEAVES_LEAFRULE_H

#include "dialects/dist/Reshard.h"

namespace tessera::dist {

/// Gives the first summed factor that can have them leaves: the largest power of two up to `most` that divides it. Such
/// a factor is the major one of its dimensions, and no window slides over it. Every other summed factor becomes whole,
/// and so do factors of statistics and the channels that a convolution sums over. No operand may be a partial sum.
/// Output channels of operators with windows stay together in blocks of 16, since libraries compute fewer in another
/// way. All channels of a gradient of weights are output channels. For the same reason groups of channels stay together
/// in pairs.
void giveLeaves(ShardingRule &rule, int64_t most);

/// The factor of the rule whose elements are leaves; -1: none has more than one.
int leafFactor(const ShardingRule &rule);

/// Fails with one sentence if the cut of the factor that has leaves is impossible: parts must be whole leaves, and of
/// several axes the major one comes first, as in the mesh, since ranks add in that order.
llvm::Error verifyLeaves(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh);

/// How a rank computes an operator leaf by leaf.
struct LeafCut {
  Mesh mesh;         // with the axis of leaves
  Strategy strategy; // on that mesh; its results are the natural ones
  int64_t count;     // leaves of a rank, more than one
  int axis;          // of the leaves

  /// The rank of `mesh` that is leaf `leaf` of a rank of the operator's mesh.
  int64_t rank(int64_t rank, int64_t leaf) const { return rank * count + leaf; }
  /// The dimension that leaves cut; -1: all leaves have all of it.
  int64_t dim(const Sharding &part) const;
};
/// nullopt: a rank computes the operator at once.
std::optional<LeafCut> leafCut(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh);

/// The same cost, but infinite for a collective that would add in another order than the tree over all leaves: ranks
/// along minor axes add before those along major ones, and never one after the other. With it the planner of reshards
/// keeps the order.
CollectiveCost inLeafOrder(CollectiveCost cost);

} // namespace tessera::dist

#endif
