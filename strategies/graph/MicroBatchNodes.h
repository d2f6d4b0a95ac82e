//===- MicroBatchNodes.h - one node for the same group of every micro-batch ------------------------===//
//
// A training program with micro-batches holds forward and backward once for each (compiler/training). All micro-batches
// compute the same on as many rows, so what is best in one is best in all. The groups that a layer forms in the
// micro-batches are therefore one node of the search problem, and a search takes as long for 16 micro-batches as for 4.
//
// Groups of different micro-batches are counterparts if they have the same options and the same place among the groups
// of their name in their micro-batch. A group without a counterpart is a node of its own. The sum of the last
// micro-batch's gradient is such a group, since it is reduced there.
//
//   groups fc1, micro1/fc1, micro2/fc1, x, fc1.w.update      nodes 0 0 0 1 2
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_MICROBATCHNODES_H
#define TESSERA_STRATEGIES_GRAPH_MICROBATCHNODES_H

#include "strategies/graph/FollowGroups.h"
#include "strategies/graph/GroupOptions.h"

namespace tessera::strategies {

/// The node of every group. Nodes are numbered in the order of their first groups. Groups of one node have the same
/// object in `options`.
std::vector<int32_t> nodesOfGroups(const Program &program, const FollowGroups &groups,
                                   llvm::ArrayRef<std::shared_ptr<const GroupOptions>> options);

} // namespace tessera::strategies

#endif
