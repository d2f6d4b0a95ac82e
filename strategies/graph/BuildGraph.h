//===- BuildGraph.h - from a function to numbers -------------------------------------------------===//
//
// One node per group, one option per GroupOption; one edge per pair of groups between which values flow, with the cost
// of the reshards that the two options need. A value that is read several times under the same sharding is resharded
// once, as in the partitioned program: what its group has as a copy costs the others nothing, and the edges of its
// readers are a share (WideGraph.h).
//
// Memory enters only if it can bind: if even the most wasteful choice fits, nodes carry no usage. Otherwise
// every node has the bytes of what stays in memory, parameters and states for the whole time, values from
// their operator to their last use, buffers of the operators' own reshards and collectives while these run; a value
// of a group that lives at other times than the group's first one is a node of its own, aliased to the group's.
// What a reshard between two groups takes depends on both choices and is left out: where that tips the scale, the
// arena does not fit and the search is asked again (compiler/driver/FitMemory.cpp). A copy that a group keeps for its
// readers (graph::mayKeepCopy) counts as long as it lives.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_BUILDGRAPH_H
#define TESSERA_STRATEGIES_GRAPH_BUILDGRAPH_H

#include "strategies/graph/GroupOptions.h"
#include "strategies/space/WideGraph.h"

namespace tessera::strategies {

/// A function of which a rank of a pipeline runs one stage. Memory is counted as that of all stages: each has its
/// part of what lives for a step, and needs room of its own for what a micro-batch makes. What the backward pass
/// reads is in its memory for several micro-batches at once.
struct PipelineShare {
  int64_t stages = 1, held = 1;
  bool operator==(const PipelineShare &) const = default;
};

struct BuiltGraph {
  WideGraph wide;   // node c is group c
  DenseGraph dense; // of the options that narrow kept; empty before
  FollowGroups groups;
  /// By group; after narrow those of `dense`.
  std::vector<std::shared_ptr<const GroupOptions>> options;
};

/// Whether what may follow does so (formFollowGroups), or can choose as well (splitFollowGroups).
enum class Groups { Whole, Split };

/// `fixed` may be null, and so may `known`, which is of the same `model`. The wide graph has every option. `parts`: all
/// its costs have their parts, for weighted(). `groups`: of the followers. `share`: see PipelineShare. Options and
/// tables are divided among `threads`; their number makes no difference to the graph.
BuiltGraph buildGraph(const FunctionAssignment &function, const CostModel &model, const FixedStrategies *fixed,
                      const SharedShardings &shared, int64_t memoryLimit, KnownOptions *known = nullptr,
                      bool parts = false, Groups groups = Groups::Whole, PipelineShare share = {}, int threads = 1);

/// A graph without costs and with the same options, which narrow and applyChoice take.
BuiltGraph optionsOf(const BuiltGraph &built);

/// Leaves out all options but those of `dense`, which is made of the wide graph.
void narrow(BuiltGraph &built, DenseGraph dense);

/// The way back: strategies and shardings of a choice, and of the sources, which are in no group.
void applyChoice(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built, const Choice &choice);

/// Per node the option with which most of its operators lie as in `like`, an assignment of the same function; the first
/// of several.
std::vector<int32_t> likestOptions(const BuiltGraph &built, const FunctionAssignment &like);

} // namespace tessera::strategies

#endif
