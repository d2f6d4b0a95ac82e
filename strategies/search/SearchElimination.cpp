//===- SearchElimination.cpp - reductions and exact elimination, nothing else
//--------------------===//
#include "strategies/search/Incumbent.h"
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
  Answer answer;
  double least, work = 0;
  if (!eliminateCore(core, 1 << 26, 1 << 28, answer, least, work))
    return solution;
  if (least >= kCoreForbidden) {
    solution.infeasible = true;
    return solution;
  }
  solution.choice = model.expand(core.ids(model, answer));
  solution.lowerBound = provenBound(least);
  return solution;
}
