//===- Searchers.h - the searchers behind Search.h --------------------------------------------===//
//
// One function per searcher, one file per function, none includes another. Each gets a checked
// graph and fills what it proves; Search.cpp judges the choice with Evaluate.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_SEARCHERS_H
#define TESSERA_STRATEGIES_SEARCH_SEARCHERS_H

#include "strategies/search/Search.h"

#include <chrono>

namespace tessera::strategies {

class Clock {
public:
  explicit Clock(const SearchOptions &options)
      : start_(std::chrono::steady_clock::now()), budget_(options.seconds), options_(options) {}
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  bool expired() const { return seconds() >= budget_ || options_.stopped(); }
  double left() const { return budget_ - seconds(); }

private:
  std::chrono::steady_clock::time_point start_;
  double budget_;
  const SearchOptions &options_;
};

/// Reductions, then exact elimination, or bounds with large neighbourhood search.
Solution searchExact(const StrategyGraph &graph, const SearchOptions &options);
/// Exact variable elimination only, where memory is kept as Pareto sets. No answer if the graph is too wide or the sets
/// grow too large.
Solution searchElimination(const StrategyGraph &graph, const SearchOptions &options);
/// Fast: halves the program order and minimises pieces and the seams between them exactly.
Solution searchRecursive(const StrategyGraph &graph, const SearchOptions &options);
/// Fast: spreads choices from what is fixed, the least doubtful first.
Solution searchPropagation(const StrategyGraph &graph, const SearchOptions &options);
/// The choice of plain data parallelism, where the graph names it and it fits: a baseline.
Solution searchData(const StrategyGraph &graph, const SearchOptions &options);
/// The best of random choices, each made to agree with its neighbours greedily: a baseline.
Solution searchRandom(const StrategyGraph &graph, const SearchOptions &options);

} // namespace tessera::strategies

#endif
