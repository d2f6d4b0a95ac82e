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

} // namespace tessera::strategies
