//===- WideGraph.h - the search problem with every option ----------------------------------------===//
//
// A wide graph is the problem of a StrategyGraph for lists of thousands of options per node. A matrix over the options
// of two nodes would be too large. But the cost of an edge depends only on the shardings in which the two options hand
// the value on and take it. The sharding is the option's state on that edge. So an edge has the state of every option,
// and a table over states, of which each end has some hundred.
//
//   cost of an edge for options i and j = table(fromState[i], toState[j])
//
// Several edges between two nodes add up. The graph is plain data, as a StrategyGraph is.
//
// Example: the three options of one node hand a tensor on cut, cut and whole. The two options of the other node take it
// cut and whole.
//   fromState {0, 0, 1}, toState {0, 1}, table {0, gather,
//                                              0, 0}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_WIDEGRAPH_H
#define TESSERA_STRATEGIES_SPACE_WIDEGRAPH_H

#include "strategies/space/StrategyGraph.h"

#include <memory>

namespace tessera::strategies {

/// The costs of an edge: a row for each state of `from`, a column for each state of `to`.
struct StateTable {
  size_t rows = 0, columns = 0;
  std::vector<Cost> costs; // row-major
};

/// Bytes that a node takes for a while, by option. Nodes share lists that are equal, and what depends on a list is
/// computed once.
struct WideUse {
  std::shared_ptr<const std::vector<int64_t>> bytes;
  int64_t liveFrom, liveTo; // live at times liveFrom <= t < liveTo
};

struct WideNode {
  std::string name;
  std::shared_ptr<const std::vector<Cost>> costs; // by option; not empty
  std::vector<WideUse> uses = {};
};

struct WideEdge {
  int32_t from, to;
  std::shared_ptr<const std::vector<int32_t>> fromState, toState; // by option
  std::shared_ptr<const StateTable> table;
  bool grows = false; // its costs grow with the batch
};

struct WideGraph {
  std::vector<WideNode> nodes;
  std::vector<WideEdge> edges;
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> dataParallel; // by node the option of plain data parallelism; empty: not known
};

/// The options that are left, by node, ascending.
using Kept = std::vector<std::vector<int32_t>>;

Kept everyOption(const WideGraph &wide);

/// The problem among the kept options alone. Node n of the wide graph is node n of the result. A node that takes memory
/// several times has an alias behind them for each further time.
StrategyGraph denseGraph(const WideGraph &wide, const Kept &kept);

} // namespace tessera::strategies

#endif
