//===- Search.cpp - dispatch to a searcher, judgement of its answer ---------------------------===//
#include "strategies/search/Search.h"

#include "strategies/search/Evaluate.h"
#include "strategies/search/Searchers.h"

#include <algorithm>

using namespace tessera::strategies;

namespace {
struct Entry {
  const char *name;
  Solution (*run)(const StrategyGraph &, const SearchOptions &);
};
constexpr Entry kSearchers[] = {{"exact", searchExact},         {"elimination", searchElimination},
                                {"recursive", searchRecursive}, {"propagation", searchPropagation},
                                {"data", searchData},           {"random", searchRandom}};
} // namespace

const std::vector<std::string> &tessera::strategies::searcherNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Entry &entry : kSearchers)
      list.push_back(entry.name);
    return list;
  }();
  return names;
}

Solution tessera::strategies::search(const StrategyGraph &graph, const SearchOptions &options) {
  Clock clock(options);
  Solution solution;
  solution.searcher = options.searcher;
  if (graph.nodes.empty()) { // the empty choice is the answer here; elsewhere it means "none found"
    solution.cost = 0;
    solution.optimal = true;
    return solution;
  }
  for (const Entry &entry : kSearchers)
    if (options.searcher == entry.name)
      solution = entry.run(graph, options);
  // If the budget was too small, greedy choices, which need none, are the last resort. They are not tried for
  // "elimination", which answers exactly or not at all, nor for "data", which has one answer or none.
  if (solution.choice.empty() && !solution.infeasible && options.searcher != "elimination" &&
      options.searcher != "data") {
    SearchOptions quick = options;
    quick.seconds = 0;
    solution.choice = searchRandom(graph, quick).choice;
  }
  solution.searcher = options.searcher;
  if (solution.infeasible)
    solution.choice.clear();
  if (!solution.choice.empty()) {
    Evaluation judged = evaluate(graph, solution.choice);
    if (judged.feasible) {
      solution.cost = judged.cost;
      solution.lowerBound = std::min(solution.lowerBound, judged.cost);
      solution.optimal = solution.lowerBound == judged.cost;
    } else {
      solution.choice.clear();
    }
  }
  if (solution.choice.empty()) {
    solution.cost = kForbidden;
    solution.optimal = false;
  }
  solution.seconds = clock.seconds();
  return solution;
}
