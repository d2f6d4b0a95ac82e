#include "strategies/space/Weighted.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace tessera::strategies {

/// `partsOf`: of a cost's place.
template <typename PartsOf>
static std::vector<Cost> weightedCosts(const std::vector<Cost> &costs, Weights weights, PartsOf partsOf) {
  std::vector<Cost> made(costs.size());
  for (size_t i = 0; i < costs.size(); ++i)
    made[i] = costs[i] >= kForbidden ? kForbidden : std::min(kForbidden, weights.of(partsOf(i)));
  return made;
}

WideGraph weighted(const WideGraph &wide, Weights weights) {
  WideGraph made = wide;
  // What nodes and edges share, they share here.
  std::map<const void *, std::shared_ptr<const std::vector<Cost>>> nodes;
  std::map<const void *, std::shared_ptr<const StateTable>> tables;
  std::map<const void *, std::shared_ptr<const SharedCopies>> copies;
  auto tableOf = [&](const StateTable &table) {
    assert(table.costs.size() == table.least.size());
    auto parts = [&](size_t i) { return CostParts{table.compute.empty() ? 0 : table.compute[i], table.least[i]}; };
    return StateTable{table.rows, table.columns, weightedCosts(table.costs, weights, parts)};
  };
  for (WideNode &node : made.nodes) {
    auto &costs = nodes[node.costs.get()];
    if (!costs)
      costs = std::make_shared<const std::vector<Cost>>(
          weightedCosts(*node.costs, weights, [&](size_t i) { return (*node.parts)[i]; }));
    node.costs = costs;
    node.parts = nullptr;
  }
  for (WideEdge &edge : made.edges) {
    auto &table = tables[edge.table.get()];
    if (!table)
      table = std::make_shared<const StateTable>(tableOf(*edge.table));
    edge.table = table;
  }
  for (WideShare &share : made.shares) {
    auto &known = copies[share.copies.get()];
    if (!known)
      known = std::make_shared<const SharedCopies>(SharedCopies{tableOf(share.copies->prices), share.copies->wants});
    share.copies = known;
  }
  return made;
}

CostParts partsOf(const WideGraph &wide, const std::vector<int32_t> &options) {
  CostParts sum;
  auto add = [&](const StateTable &table, int32_t row, int32_t column, int64_t times) {
    const size_t at = size_t(row) * table.columns + size_t(column);
    sum.compute += times * (table.compute.empty() ? 0 : table.compute[at]);
    sum.least += times * table.least[at];
  };
  auto stateOf = [&](const std::vector<int32_t> &states, int32_t node) {
    return states[size_t(options[size_t(node)])];
  };
  for (size_t n = 0; n < wide.nodes.size(); ++n) {
    const CostParts parts = (*wide.nodes[n].parts)[size_t(options[n])];
    sum.compute += parts.compute;
    sum.least += parts.least;
  }
  for (const WideEdge &edge : wide.edges)
    add(*edge.table, stateOf(*edge.fromState, edge.from), stateOf(*edge.toState, edge.to), 1);
  for (const WideShare &share : wide.shares) {
    std::vector<int64_t> readers(share.copies->prices.columns, 0); // by copy
    for (size_t r = 0; r < share.edges.size(); ++r) {
      const WideEdge &edge = wide.edges[size_t(share.edges[r])];
      for (int32_t copy : share.copies->wants[r][size_t(stateOf(*edge.toState, edge.to))])
        ++readers[size_t(copy)];
    }
    const WideEdge &first = wide.edges[size_t(share.edges.front())];
    for (size_t copy = 0; copy < readers.size(); ++copy)
      if (readers[copy] > 1)
        add(share.copies->prices, stateOf(*first.fromState, first.from), int32_t(copy), 1 - readers[copy]);
  }
  return sum;
}

} // namespace tessera::strategies
