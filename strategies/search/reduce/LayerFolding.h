//===- LayerFolding.h - repeated layers take one choice -------------------------------------------===//
//
// The layers of a deep network pose the same problem many times. Variables whose costs, memory and surroundings are
// equal form a group, and the folded problem has one node per group: costs and edges of its members added up, an edge
// inside the group on its diagonal, memory as it lies in time. What the folded problem chooses, every member of the
// group chooses: an answer of the whole, often a very good one, for the work of one layer. It is a restriction, so its
// bound is none of the whole's.
//
// Equal surroundings: as in the refinement of colours by Weisfeiler and Leman, some rounds of it. Layers near the ends
// then fall into the same groups as those in the middle; more rounds would tell them apart one by one.
//
// Example: a1 - b1 - a2 - b2 - a3 - b3 with equal a, equal b and equal matrices becomes a - b with three times the
// costs, the matrix of a and b three times and that of b and a twice.
//
//   LayerFolding fold(graph, problem.variableOf);
//   Choice choice = fold.unfold(searchExact(fold.graph, options).choice);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_REDUCE_LAYERFOLDING_H
#define TESSERA_STRATEGIES_SEARCH_REDUCE_LAYERFOLDING_H

#include "strategies/space/StrategyGraph.h"

namespace tessera::strategies {

struct LayerFolding {
  /// `variableOf`: nodes that choose alike have the same number (Problem.h).
  LayerFolding(const StrategyGraph &graph, const std::vector<int32_t> &variableOf, int rounds);
  /// The same with the number of rounds that the search uses.
  LayerFolding(const StrategyGraph &graph, const std::vector<int32_t> &variableOf);

  /// Turns a choice of the folded graph into one for the whole graph's nodes.
  Choice unfold(const Choice &folded) const;

  StrategyGraph graph;
  int32_t groups = 0; // the graph's first nodes; the others are their memory at different times

private:
  std::vector<int32_t> groupOf_; // by node of the whole graph
};

} // namespace tessera::strategies

#endif
