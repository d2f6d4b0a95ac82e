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
// Readers of one value that take it in the same other sharding share one copy. The table of each reader has the full
// price of what it wants; a share says which edges have copies in common, and what a copy costs. So
//
//   cost of a share = sum of the prices of all copies that at least one reader wants
//
// In a StrategyGraph edges join two nodes. There an option of the producer also says which copies it offers to all
// readers: it pays for them, and who wants one of them pays nothing. Only copies that two readers may want are offered.
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

/// Of a cost: what kernels take, and of the rest what remains where messages are joined and start up in no time. The
/// searchers do not look at it (Weighted.h).
struct CostParts {
  Cost compute = 0, least = 0;
};

/// The costs of an edge: a row for each state of `from`, a column for each state of `to`.
struct StateTable {
  size_t rows = 0, columns = 0;
  std::vector<Cost> costs; // row-major
  // Their parts (CostParts), apart from each other, since most tables are of reshards that cost no kernel time.
  std::vector<Cost> compute = {}; // empty: 0 everywhere
  std::vector<Cost> least = {};   // empty: not known
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
  std::shared_ptr<const std::vector<CostParts>> parts = {}; // of the costs; null: not known
};

struct WideEdge {
  int32_t from, to;
  std::shared_ptr<const std::vector<int32_t>> fromState, toState; // by option
  std::shared_ptr<const StateTable> table;
  bool grows = false; // its costs grow with the batch
};

struct WideGraph;

/// What the readers of one value may want of it, and what that costs.
struct SharedCopies {
  StateTable prices; // rows: states in which the value is handed on, columns: copies; 0 where the copy is no reshard
  std::vector<std::vector<std::vector<int32_t>>> wants; // by reader and its state: copies, ascending

  /// The most copies that can have two readers each at once.
  size_t mostShared() const;
};

/// Edges from one node, with the same states there: readers of one value. The costs of an edge are the prices of what
/// its reader wants.
struct WideShare {
  std::vector<int32_t> edges; // by reader
  std::shared_ptr<const SharedCopies> copies;

  /// No node wants two copies at once.
  bool disjoint(const WideGraph &wide) const;
};

struct WideGraph {
  std::vector<WideNode> nodes;
  std::vector<WideEdge> edges;
  std::vector<WideShare> shares = {};
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> dataParallel; // by node the option of plain data parallelism; empty: not known

  /// What a copy costs if the producer of the share takes the option.
  Cost price(size_t share, int32_t option, int32_t copy) const {
    const StateTable &prices = shares[share].copies->prices;
    const std::vector<int32_t> &state = *edges[size_t(shares[share].edges.front())].fromState;
    return prices.costs[size_t(state[size_t(option)]) * prices.columns + size_t(copy)];
  }
};

/// The options that are left, by node, ascending.
using Kept = std::vector<std::vector<int32_t>>;

Kept everyOption(const WideGraph &wide);

/// A copy that may be offered where the value is handed on in this state.
struct Offer {
  int32_t state, copy;
  double beyond = 0; // what an answer in which two readers want it costs beyond a bound, at least
  double least = 0;  // the same with what the state itself costs beyond it
};

/// By share, in the order of states and copies. A set of them is offered unless an answer that needs all of it costs
/// more than `limit` beyond the bound.
struct Offers {
  std::vector<std::vector<Offer>> list;
  double limit = std::numeric_limits<double>::infinity();
  /// By node and option: what an answer with it costs beyond the bound at least, besides `beyond`. Empty for a node: 0.
  std::vector<std::vector<double>> option = {};
  size_t mostSets = 4096; // that one option may offer; others are left out

  /// Those among them that a smaller limit leaves.
  Offers within(double smaller) const;
};

/// All that two readers may want among the kept options, and that cost something.
Offers everyOffer(const WideGraph &wide, const Kept &kept);

/// The problem among the kept options alone. Node n of the wide graph is node n; nodes of further uses stand behind
/// them, as aliases. An option of the wide graph is one option for every set of copies that it may offer.
struct DenseGraph {
  StrategyGraph graph;
  std::vector<std::vector<int32_t>> option; // by node and option: the wide graph's option, ascending
  /// By node and option: what is offered, as pairs of share and copy.
  std::vector<std::vector<std::vector<std::pair<int32_t, int32_t>>>> offered;
  std::vector<std::pair<int32_t, int32_t>> shareOf; // by edge of the wide graph: share and reader; -1: none
  bool whole = true;                                // no set was left out

  /// What the reader of an edge of the wide graph pays beside option `i` of the producer, by the reader's state.
  std::vector<Cost> costs(const WideGraph &wide, size_t edge, size_t i) const;

  /// The choice of these options of the wide graph, by node, with the best of its offers; empty where one of them is
  /// left out.
  Choice choiceOf(const WideGraph &wide, const std::vector<int32_t> &options) const;
};

DenseGraph denseGraph(const WideGraph &wide, const Kept &kept, const Offers &offers);
/// With every offer.
StrategyGraph denseGraph(const WideGraph &wide, const Kept &kept);

/// Numbers of options of the dense graph, by node, if no set were left out.
std::vector<double> denseSizes(const WideGraph &wide, const Kept &kept, const Offers &offers);

} // namespace tessera::strategies

#endif
