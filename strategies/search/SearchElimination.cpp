//===- SearchElimination.cpp - reductions and exact elimination, nothing else
//--------------------===//
#include "strategies/search/Core.h"
#include "strategies/search/Eliminate.h"
#include "strategies/search/Reduce.h"
#include "strategies/search/Searchers.h"

using namespace tessera::strategies;

Solution tessera::strategies::searchElimination(const StrategyGraph &graph,
                                                const SearchOptions &options) {
  Solution solution;
  Model model(graph);
  reduce(model);
  if (model.infeasible) {
    solution.infeasible = true;
    return solution;
  }
  Core core(model);
  if (core.hasMemory())
    return solution;
  std::vector<int32_t> sizes;
  std::vector<const double *> unary;
  std::vector<EliminationEdge> edges;
  for (int32_t v = 0; v < core.count(); ++v) {
    sizes.push_back(core.size(v));
    unary.push_back(&core.costs[core.first[v]]);
    for (const CoreLink &link : core.links[v])
      if (link.other > v)
        edges.push_back({v, link.other, &core.matrices[link.to], &core.matrices[link.from]});
  }
  EliminationPlan plan(sizes, edges, {double(1 << 26), double(1 << 28)});
  if (!plan.fits())
    return solution;
  Answer answer;
  double least = core.constant + plan.run(unary, answer);
  if (least >= kCoreForbidden) {
    solution.infeasible = true;
    return solution;
  }
  solution.choice = model.expand(core.ids(model, answer));
  solution.lowerBound = Cost(least);
  return solution;
}
