//===- StrategyGraph.h - the search problem, as numbers ------------------------------------------===//
//
// A strategy graph has one node per decision; the compiler makes one of every follow group. A node has a list of
// options, and an option has a cost and a memory use. Every edge has a matrix of costs. Aliases are nodes that must
// choose alike. Every node says when its memory is live. The graph is plain data without MLIR, operators or a mesh.
// Searchers and Evaluate see only this, so a problem can be written to a file, solved alone and exchanged.
//
// Problem. Choose one option per node so that the sum of node costs and edge costs is least, aliased
// nodes choose the same option index, and at every time the usages of live nodes sum to at most
// `memoryLimit`. Costs are integers (in the compiler: nanoseconds); `kForbidden` and above mean "never".
//
// The file form is the JSON of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator parallelism, plain
// or gzip: {"problem": {"name", "nodes": {"intervals", "costs", "usages"}, "edges": {"nodes", "costs"},
// "usage_limit"}}, with the extensions "aliases": [[i, j], ...] and "data_parallel": [option, ...].
//
// Example: two operators with two options each, where unequal choices cost 5:
//   StrategyGraph g;
//   g.addNode({.costs = {3, 1}});
//   g.addNode({.costs = {1, 3}});
//   g.addEdge(0, 1, {0, 5, 5, 0});       // row-major, |options of 0| x |options of 1|
//   // best: both 0 (cost 4) or both 1 (cost 4)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_STRATEGYGRAPH_H
#define TESSERA_STRATEGIES_SPACE_STRATEGYGRAPH_H

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tessera::strategies {

using Cost = int64_t;
/// Costs at or above this are forbidden; sums stop here. The contest's files use this value.
inline constexpr Cost kForbidden = 1'000'000'000'000'000'000;

struct StrategyNode {
  std::string name = {};
  std::vector<Cost> costs;          // one per option; not empty
  std::vector<int64_t> usages = {}; // one per option, or empty: none
  int64_t liveFrom = 0, liveTo = 0; // live at times liveFrom <= t < liveTo; empty when from >= to
};

struct StrategyEdge {
  int32_t from, to;
  std::vector<Cost> costs; // row-major |from| x |to|
};

struct StrategyGraph {
  std::string name;
  std::vector<StrategyNode> nodes;
  std::vector<StrategyEdge> edges;
  std::vector<std::pair<int32_t, int32_t>> aliases; // choose the same option index; without cycles
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> dataParallel; // per node the option of plain data parallelism; empty: not known

  int32_t addNode(StrategyNode node) {
    nodes.push_back(std::move(node));
    return int32_t(nodes.size() - 1);
  }
  void addEdge(int32_t from, int32_t to, std::vector<Cost> costs) { edges.push_back({from, to, std::move(costs)}); }
};

/// One option index per node.
using Choice = std::vector<int32_t>;

/// What a searcher returns. `lowerBound` is proven; `optimal` means lowerBound == cost.
struct Solution {
  Choice choice; // empty: none found
  Cost cost = kForbidden;
  Cost lowerBound = 0;
  bool optimal = false;
  bool infeasible = false; // proven: nothing fits
  bool limited = false;    // with a larger budget of work it might have been another one
  double seconds = 0;
  double work = 0; // in 1e9 elementary steps; 0: the searcher does not count them
  std::string searcher;
};

} // namespace tessera::strategies

#endif
