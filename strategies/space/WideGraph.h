//===- WideGraph.h - the search problem with every option ----------------------------------------===//
//
// The same problem as a StrategyGraph, for lists of thousands of options per node. A matrix over the options of two
// nodes would be too large. But an option meets a neighbour only through the sharding in which it hands a value on or
// takes it: its state on that edge. So an edge has a table over states, some hundred of each end, and the state of
// every option.
//
//   cost of an edge for options i and j = table(fromState[i], toState[j])
//
// There may be several edges between two nodes; their costs add up. Plain data, as in StrategyGraph.
//
// Example: a node with three options that hands a tensor on cut, cut and whole, to one with two options that take it
// cut and whole:
//   fromState {0, 0, 1}, toState {0, 1}, table {0, gather,
//                                              0, 0}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_WIDEGRAPH_H
#define TESSERA_STRATEGIES_SPACE_WIDEGRAPH_H

#include "strategies/space/StrategyGraph.h"

#include <memory>

namespace tessera::strategies {

/// Row-major |states of from| x |states of to|.
struct StateTable {
  size_t rows = 0, columns = 0;
  std::vector<Cost> costs;
};

/// Bytes that a node takes for a while, by option. What is equal in several nodes is shared, so that what is computed
/// from it is computed once.
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

/// Options by node, ascending.
using Kept = std::vector<std::vector<int32_t>>;

Kept everyOption(const WideGraph &wide);

/// The problem among the kept options alone. Node n of the wide graph is node n; nodes of further uses stand behind
/// them, as aliases.
StrategyGraph denseGraph(const WideGraph &wide, const Kept &kept);

} // namespace tessera::strategies

#endif
