//===- Search.h - one call that chooses a strategy for every node ----------------------------===//
//
// Runs a searcher on a StrategyGraph under a time budget and returns its best answer with a proven
// lower bound. The default searcher takes every exact reduction first, then solves what is left
// exactly by variable elimination where its width allows, and otherwise by Lagrangian bounds with
// local search until the budget ends or the bound meets the answer. Every answer is judged by
// Evaluate before it is returned. If the budget ends without an answer, greedy choices are tried as a last
// resort: an empty choice without `infeasible` means that these did not fit either.
//
// The course of a search depends on the seed, the threads and the work done, never on the clock. So an
// answer is reproducible if the search ends by proof, by `gap` or by `work`; only `seconds` may cut it
// short at different places.
//
// Example:
//
//   SearchOptions options;
//   options.seconds = 1;
//   Solution s = search(graph, options);
//   if (s.infeasible)           // proven: nothing fits
//   else if (s.choice.empty())  // none found in the budget
//   else use(s.choice);         // s.cost, s.lowerBound, s.optimal
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_SEARCH_H
#define TESSERA_STRATEGIES_SEARCH_SEARCH_H

#include "strategies/space/StrategyGraph.h"

#include <atomic>

namespace tessera::strategies {

struct SearchOptions {
  double seconds = 10;                     // budget; an answer that is proven best returns at once
  double work = 0;                         // budget in 1e9 elementary steps, roughly seconds; 0: none
  int threads = 1;                         // used after the exact phase
  uint64_t seed = 1;                       // of the randomized phases
  double gap = 0;                          // also stop when cost <= lowerBound * (1 + gap)
  std::string searcher = "exact";          // one of searcherNames()
  bool log = false;                        // the searcher "exact" tells on stderr what it does
  const std::atomic<bool> *stop = nullptr; // becomes true: the budget ends now
  // What a search of a similar problem has found: the searcher "exact" begins there.
  const Choice *start = nullptr;
  // Of memory, by point in time (Problem::points). Others than of this problem are ignored. At the end, its last ones.
  std::vector<double> *prices = nullptr;
};

/// Requires a graph that passes checkStrategyGraph and a searcher of searcherNames().
Solution search(const StrategyGraph &graph, const SearchOptions &options = {});

/// The searchers by name, default first.
const std::vector<std::string> &searcherNames();

} // namespace tessera::strategies

#endif
