//===- LayerFolding.cpp - repeated layers take one choice -----------------------------------------===//
#include "strategies/search/reduce/LayerFolding.h"

#include "strategies/search/problem/Problem.h"

#include <algorithm>
#include <map>

using namespace tessera::strategies;

namespace {

// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr int kRounds = 3; // edges that two variables' surroundings reach; equal surroundings choose alike; same

/// Steele, Lea, Flood (OOPSLA 2014). Sums of mixed values are hashes of multisets.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t hash(const std::vector<int64_t> &list) {
  uint64_t h = list.size();
  for (int64_t x : list)
    h = mix(h ^ uint64_t(x));
  return h;
}

void addTo(std::vector<int64_t> &sum, const std::vector<int64_t> &list) {
  sum.resize(list.size(), 0);
  for (size_t i = 0; i < list.size(); ++i)
    sum[i] = addCosts(sum[i], list[i]);
}

/// Numbers the variables. Those that are to choose alike get equal numbers.
std::vector<uint64_t> colours(const StrategyGraph &graph, const std::vector<int32_t> &variableOf, size_t variables,
                              int rounds) {
  std::vector<uint64_t> colour(variables, 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    colour[variableOf[i]] += mix(hash(graph.nodes[i].costs) ^ mix(hash(graph.nodes[i].usages)));
  std::vector<uint64_t> matrix;
  for (const StrategyEdge &edge : graph.edges)
    matrix.push_back(hash(edge.costs));
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint64_t> next;
    for (uint64_t c : colour)
      next.push_back(mix(c));
    for (size_t e = 0; e < graph.edges.size(); ++e) {
      int32_t a = variableOf[graph.edges[e].from], b = variableOf[graph.edges[e].to];
      next[a] += mix(matrix[e] ^ mix(colour[b]));
      next[b] += mix(matrix[e] + mix(colour[a]));
    }
    colour = std::move(next);
  }
  return colour;
}

} // namespace

LayerFolding::LayerFolding(const StrategyGraph &whole, const std::vector<int32_t> &variableOf)
    : LayerFolding(whole, variableOf, kRounds) {}

LayerFolding::LayerFolding(const StrategyGraph &whole, const std::vector<int32_t> &variableOf, int rounds) {
  size_t variables = 0;
  for (int32_t v : variableOf)
    variables = std::max(variables, size_t(v) + 1);
  const std::vector<uint64_t> colour = colours(whole, variableOf, variables, rounds);
  graph.name = whole.name;
  graph.memoryLimit = whole.memoryLimit;
  // If different surroundings have equal hashes, only quality suffers. Different numbers of options must never share a
  // group.
  std::map<std::pair<uint64_t, size_t>, int32_t> ids; // looked up only
  for (size_t i = 0; i < whole.nodes.size(); ++i) {
    const StrategyNode &node = whole.nodes[i];
    auto [it, fresh] = ids.try_emplace({colour[variableOf[i]], node.costs.size()}, groups);
    if (fresh) {
      ++groups;
      graph.addNode({.name = node.name, .costs = {}});
    }
    groupOf_.push_back(it->second);
    addTo(graph.nodes[it->second].costs, node.costs);
  }
  std::map<std::tuple<int32_t, int64_t, int64_t>, std::vector<int64_t>> memory;
  for (size_t i = 0; i < whole.nodes.size(); ++i) {
    const StrategyNode &node = whole.nodes[i];
    if (!node.usages.empty() && node.liveFrom < node.liveTo)
      addTo(memory[{groupOf_[i], node.liveFrom, node.liveTo}], node.usages);
  }
  for (auto &[key, usages] : memory) {
    auto [group, from, to] = key;
    StrategyNode node;
    node.costs.assign(usages.size(), 0);
    node.usages = std::move(usages);
    node.liveFrom = from;
    node.liveTo = to;
    graph.aliases.push_back({group, graph.addNode(std::move(node))});
  }
  std::map<std::pair<int32_t, int32_t>, std::vector<Cost>> edges;
  for (const StrategyEdge &edge : whole.edges) {
    int32_t a = groupOf_[edge.from], b = groupOf_[edge.to];
    if (a != b) { // one for each direction between two groups
      addTo(edges[{a, b}], edge.costs);
      continue;
    }
    std::vector<Cost> &own = graph.nodes[a].costs;
    for (size_t s = 0; s < own.size(); ++s)
      own[s] = addCosts(own[s], edge.costs[s * own.size() + s]);
  }
  for (auto &[ends, costs] : edges)
    graph.addEdge(ends.first, ends.second, std::move(costs));
}

Choice LayerFolding::unfold(const Choice &folded) const {
  Choice choice;
  for (int32_t group : groupOf_)
    choice.push_back(folded[size_t(group)]);
  return choice;
}
