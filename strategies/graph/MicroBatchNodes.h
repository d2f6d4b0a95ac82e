//===- MicroBatchNodes.h - one node for the same group of every micro-batch ------------------------===//
//
// A training program with micro-batches holds forward and backward once for each (compiler/training). What is best in
// one is best in all: they compute the same on as many rows. So the groups that a layer forms in each micro-batch are
// one node of the search problem, and a search takes as long for 16 micro-batches as for 4.
//
// Alike are groups that have the same options, stand in the same place among the groups of that name in their
// micro-batch, and belong to different micro-batches. A group without a counterpart, such as the sum of the last
// micro-batch's gradient, which is paid there, is a node of its own.
//
//   groups fc1, micro1/fc1, micro2/fc1, x, fc1.w.update      nodes 0 0 0 1 2
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_MICROBATCHNODES_H
#define TESSERA_STRATEGIES_GRAPH_MICROBATCHNODES_H

#include "strategies/graph/FollowGroups.h"
#include "strategies/graph/GroupOptions.h"

namespace tessera::strategies {

/// By group its node; nodes are numbered in the order of their first groups. Groups of one node have the very same
/// `options`.
std::vector<int32_t> nodesOfGroups(const Program &program, const FollowGroups &groups,
                                   llvm::ArrayRef<std::shared_ptr<const GroupOptions>> options);

} // namespace tessera::strategies

#endif
