//===- SearchData.cpp - plain data parallelism, the baseline that people know ---------------------===//
#include "strategies/search/Evaluate.h"
#include "strategies/search/Searchers.h"

using namespace tessera::strategies;

Solution tessera::strategies::searchData(const StrategyGraph &graph, const SearchOptions &) {
  Solution solution;
  if (graph.dataParallel.empty())
    return solution;
  Evaluation judged = evaluate(graph, graph.dataParallel);
  if (judged.feasible) {
    solution.cost = judged.cost;
    solution.choice = graph.dataParallel;
  }
  return solution;
}
