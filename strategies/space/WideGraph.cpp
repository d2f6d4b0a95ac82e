#include "strategies/space/WideGraph.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::strategies {

Kept everyOption(const WideGraph &wide) {
  Kept kept(wide.nodes.size());
  for (size_t n = 0; n < kept.size(); ++n) {
    kept[n].resize(wide.nodes[n].costs->size());
    std::iota(kept[n].begin(), kept[n].end(), 0);
  }
  return kept;
}

StrategyGraph denseGraph(const WideGraph &wide, const Kept &kept) {
  StrategyGraph dense;
  dense.memoryLimit = wide.memoryLimit;
  auto pick = [](const auto &list, const std::vector<int32_t> &which) {
    std::remove_cvref_t<decltype(list)> picked;
    picked.reserve(which.size());
    for (int32_t k : which)
      picked.push_back(list[size_t(k)]);
    return picked;
  };
  for (size_t n = 0; n < wide.nodes.size(); ++n) {
    const WideNode &node = wide.nodes[n];
    StrategyNode to = {.name = node.name, .costs = pick(*node.costs, kept[n])};
    if (!node.uses.empty()) {
      to.usages = pick(*node.uses[0].bytes, kept[n]);
      to.liveFrom = node.uses[0].liveFrom;
      to.liveTo = node.uses[0].liveTo;
    }
    dense.addNode(std::move(to));
  }
  for (size_t n = 0; n < wide.nodes.size(); ++n)
    for (size_t u = 1; u < wide.nodes[n].uses.size(); ++u) {
      const WideUse &use = wide.nodes[n].uses[u];
      StrategyNode extra = {.name = wide.nodes[n].name,
                            .costs = std::vector<Cost>(kept[n].size(), 0),
                            .usages = pick(*use.bytes, kept[n]),
                            .liveFrom = use.liveFrom,
                            .liveTo = use.liveTo};
      dense.aliases.push_back({int32_t(n), dense.addNode(std::move(extra))});
    }
  if (!wide.dataParallel.empty()) {
    // Where the option was not kept, the first kept option stands for it.
    dense.dataParallel.assign(dense.nodes.size(), 0);
    for (size_t n = 0; n < wide.nodes.size(); ++n)
      if (auto at = std::lower_bound(kept[n].begin(), kept[n].end(), wide.dataParallel[n]);
          at != kept[n].end() && *at == wide.dataParallel[n])
        dense.dataParallel[n] = int32_t(at - kept[n].begin());
    for (auto [node, other] : dense.aliases)
      dense.dataParallel[size_t(other)] = dense.dataParallel[size_t(node)];
  }
  std::map<std::pair<int32_t, int32_t>, std::vector<Cost>> sums;
  for (const WideEdge &edge : wide.edges) {
    const int32_t a = std::min(edge.from, edge.to), b = std::max(edge.from, edge.to);
    const std::vector<int32_t> &from = kept[size_t(edge.from)], &to = kept[size_t(edge.to)];
    std::vector<Cost> &sum = sums[{a, b}];
    sum.resize(from.size() * to.size(), 0);
    for (size_t i = 0; i < from.size(); ++i) {
      const Cost *row = edge.table->costs.data() + size_t((*edge.fromState)[size_t(from[i])]) * edge.table->columns;
      for (size_t j = 0; j < to.size(); ++j) {
        Cost &cell = edge.from == a ? sum[i * to.size() + j] : sum[j * from.size() + i];
        cell = std::min(kForbidden, cell + row[(*edge.toState)[size_t(to[j])]]);
      }
    }
  }
  for (auto &[ends, costs] : sums)
    if (std::any_of(costs.begin(), costs.end(), [](Cost c) { return c != 0; }))
      dense.addEdge(ends.first, ends.second, std::move(costs));
  return dense;
}

} // namespace tessera::strategies
