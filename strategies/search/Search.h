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

#include <algorithm>
#include <atomic>
#include <limits>

namespace tessera::strategies {

/// What searches tell while they run. Another thread may read it at any time; the searches only write it, so that what
/// they find does not depend on it.
struct SearchWatch {
  std::atomic<int> running{0};            // searches that run now
  std::atomic<int> part{0}, parts{0};     // of so many searches, such as one a mesh, so many are done; 0: there is one
  std::atomic<Cost> cost{kForbidden};     // of the best answer so far; kForbidden: there is none
  std::atomic<Cost> bound{0};             // proven so far
  std::atomic<double> work{0}, budget{0}; // done so far, and at most, in 1e9 steps

  /// Forgets what an earlier search told.
  void begin(double most) {
    cost = kForbidden;
    bound = 0;
    work = 0;
    budget = most;
  }
  void answer(Cost found) { lower(cost, found); }
  void raise(Cost proven) { higher(bound, proven); }
  void spend(double done) { higher(work, done); }

private:
  template <typename T> static void lower(std::atomic<T> &to, T value) {
    for (T now = to; value < now && !to.compare_exchange_weak(now, value);)
      ;
  }
  template <typename T> static void higher(std::atomic<T> &to, T value) {
    for (T now = to; value > now && !to.compare_exchange_weak(now, value);)
      ;
  }
};

struct SearchOptions {
  double seconds = 10;            // budget; an answer that is proven best returns at once
  double work = 0;                // budget in 1e9 elementary steps, roughly seconds; 0: none
  int threads = 1;                // used after the exact phase; the answer may depend on it
  int exactThreads = 1;           // for pieces of work that are the same whoever does them
  uint64_t seed = 1;              // of the randomized phases
  double gap = 0;                 // also stop when cost <= lowerBound * (1 + gap)
  std::string searcher = "exact"; // one of searcherNames()
  /// An answer that costs as much is of no use: where the bound proves that there is no cheaper one, searchWide (wide/)
  /// ends, as infeasible.
  Cost tooDear = std::numeric_limits<Cost>::max();
  /// No answer is asked for: searchWide leaves out what cannot raise its bound.
  bool boundAlone = false;
  bool log = false;                            // the searcher "exact" tells on stderr what it does
  const std::atomic<bool> *stop = nullptr;     // becomes true: the budget ends now
  const std::atomic<bool> *outdated = nullptr; // the same, of a search whose answer nobody waits for any more
  bool stopped() const { return (stop && *stop) || (outdated && *outdated); }
  /// Proven elsewhere: no answer costs less.
  Cost bound = 0;
  // What a search of a similar problem has found: the searcher "exact" begins there. searchWide takes options of the
  // wide graph.
  const Choice *start = nullptr;
  /// Of the same choices at the same costs, where they are divided otherwise: equal layers have equal costs in it.
  const StrategyGraph *alike = nullptr;
  // Of memory, by point in time (Problem::points). Others than of this problem are ignored. At the end, its last ones.
  std::vector<double> *prices = nullptr;
  /// Is told what the search finds. Of a search that is part of a larger one: `before` is the work that the larger one
  /// has done, and `provenUpTo` is where bounds end that hold for the larger one, too.
  SearchWatch *watch = nullptr;
  double before = 0, provenUpTo = std::numeric_limits<double>::infinity();
};

/// Requires a graph that passes checkStrategyGraph and a searcher of searcherNames().
Solution search(const StrategyGraph &graph, const SearchOptions &options = {});

/// The searchers by name, default first.
const std::vector<std::string> &searcherNames();

} // namespace tessera::strategies

#endif
