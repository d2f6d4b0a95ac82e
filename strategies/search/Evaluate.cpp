//===- Evaluate.cpp - the judge of strategy choices ------------------------------------------===//
#include "strategies/search/Evaluate.h"

#include <map>

using namespace tessera::strategies;

Evaluation tessera::strategies::evaluate(const StrategyGraph &graph, const Choice &choice) {
  Evaluation result;
  auto refuse = [&](std::string reason) {
    result.reason = std::move(reason);
    result.feasible = false;
    return result;
  };
  if (choice.size() != graph.nodes.size())
    return refuse("the choice has " + std::to_string(choice.size()) + " entries for " +
                  std::to_string(graph.nodes.size()) + " nodes");
  for (size_t i = 0; i < choice.size(); ++i)
    if (choice[i] < 0 || size_t(choice[i]) >= graph.nodes[i].costs.size())
      return refuse("node " + std::to_string(i) + " has no option " + std::to_string(choice[i]));
  for (auto [a, b] : graph.aliases)
    if (choice[a] != choice[b])
      return refuse("nodes " + std::to_string(a) + " and " + std::to_string(b) + " are aliases, but choose options " +
                    std::to_string(choice[a]) + " and " + std::to_string(choice[b]));

  __int128 total = 0; // no sum of 2^31 terms of 63 bits overflows it
  std::string forbidden;
  for (size_t i = 0; i < choice.size(); ++i) {
    Cost cost = graph.nodes[i].costs[choice[i]];
    if (cost >= kForbidden && forbidden.empty())
      forbidden = "option " + std::to_string(choice[i]) + " of node " + std::to_string(i) + " is forbidden";
    total += cost;
  }
  for (const StrategyEdge &edge : graph.edges) {
    size_t columns = graph.nodes[edge.to].costs.size();
    Cost cost = edge.costs[size_t(choice[edge.from]) * columns + size_t(choice[edge.to])];
    if (cost >= kForbidden && forbidden.empty())
      forbidden = "the choice of nodes " + std::to_string(edge.from) + " and " + std::to_string(edge.to) +
                  " is forbidden by their edge";
    total += cost;
  }
  result.cost = total >= kForbidden ? kForbidden : Cost(total);

  // Memory changes only where a node begins or ceases to be live.
  std::map<int64_t, __int128> change;
  for (size_t i = 0; i < choice.size(); ++i) {
    const StrategyNode &node = graph.nodes[i];
    if (node.usages.empty() || node.liveFrom >= node.liveTo)
      continue;
    change[node.liveFrom] += node.usages[choice[i]];
    change[node.liveTo] -= node.usages[choice[i]];
  }
  __int128 live = 0, peak = 0;
  for (auto [time, delta] : change) {
    live += delta;
    if (live > peak) {
      peak = live;
      result.peakTime = time;
    }
  }
  result.memoryPeak = peak > std::numeric_limits<int64_t>::max() ? std::numeric_limits<int64_t>::max() : int64_t(peak);
  if (!forbidden.empty())
    return refuse(forbidden);
  if (total >= kForbidden)
    return refuse("the costs add up to a forbidden amount");
  if (result.memoryPeak > graph.memoryLimit)
    return refuse("memory at time " + std::to_string(result.peakTime) + " is " + std::to_string(result.memoryPeak) +
                  ", the limit is " + std::to_string(graph.memoryLimit));
  result.feasible = true;
  return result;
}
