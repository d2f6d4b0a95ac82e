#include "strategies/space/Weighted.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace tessera::strategies {

static std::vector<Cost> weightedCosts(const std::vector<Cost> &costs, const std::vector<CostParts> &parts,
                                       Weights weights) {
  assert(costs.size() == parts.size());
  std::vector<Cost> made(costs.size());
  for (size_t i = 0; i < costs.size(); ++i)
    made[i] = costs[i] >= kForbidden ? kForbidden : std::min(kForbidden, weights.of(parts[i]));
  return made;
}

WideGraph weighted(const WideGraph &wide, Weights weights) {
  WideGraph made = wide;
  // What nodes and edges share, they share here.
  std::map<const void *, std::shared_ptr<const std::vector<Cost>>> nodes;
  std::map<const void *, std::shared_ptr<const StateTable>> tables;
  std::map<const void *, std::shared_ptr<const SharedCopies>> copies;
  auto tableOf = [&](const StateTable &table) {
    return StateTable{table.rows, table.columns, weightedCosts(table.costs, table.parts, weights)};
  };
  for (WideNode &node : made.nodes) {
    auto &costs = nodes[node.costs.get()];
    if (!costs)
      costs = std::make_shared<const std::vector<Cost>>(weightedCosts(*node.costs, *node.parts, weights));
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
