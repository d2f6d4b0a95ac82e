//===- BuildGraph.h - from a function to numbers -------------------------------------------------===//
//
// One node per cluster, one option per ClusterOption; one edge per pair of clusters between which values
// flow, with the cost of the reshards that the two options need. A value that a cluster reads twice under the
// same sharding is resharded once, as in the partitioned program.
//
// Memory enters only if it can bind: if even the most wasteful choice fits, nodes carry no usage. Otherwise
// every node has the bytes of what stays in memory, parameters and states for the whole time, values from
// their operator to their last use, buffers of the operators' own reshards and collectives while these run; a value
// of a cluster that lives at other times than the cluster's first one is a node of its own, aliased to the cluster's.
// What a reshard between two clusters takes depends on both choices and is left out: where that tips the scale, the
// arena does not fit and the search is asked again for less (tools/compile/Pipeline.cpp).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_ASSIGN_BUILDGRAPH_H
#define TESSERA_STRATEGIES_ASSIGN_BUILDGRAPH_H

#include "strategies/assign/ClusterOptions.h"

namespace tessera::strategies {

struct BuiltGraph {
  StrategyGraph graph;
  Clusters clusters;
  std::vector<std::shared_ptr<const ClusterOptions>> options; // by cluster
  std::vector<int32_t> node;                                  // by cluster
  /// What an edge has of values that grow with the batch: matrices that are part of its own.
  struct Growing {
    std::shared_ptr<const std::vector<Cost>> costs;
    bool turned; // |to| x |from|
  };
  std::vector<std::vector<Growing>> growing; // by edge
};

/// `fixed` may be null.
BuiltGraph buildGraph(const FunctionPlan &plan, const CostModel &model,
                      const FixedStrategies *fixed, const SharedShardings &shared,
                      int64_t memoryLimit, size_t maxOptions);

/// Sets graph.dataParallel from the same function under mode data: per node the option with which most of its
/// operators lie as in `data`, the first of several.
void nameDataParallel(BuiltGraph &built, const FunctionPlan &data);

} // namespace tessera::strategies

#endif
