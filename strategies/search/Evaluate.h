//===- Evaluate.h - the judge of strategy choices --------------------------------------------===//
//
// Prices one choice from the StrategyGraph alone. It shares no code with the searchers, so that an
// error of theirs cannot hide behind the same error here; every searcher's answer passes through
// it.
//
// Example:
//   Evaluation e = evaluate(graph, {0, 0});
//   if (!e.feasible)
//     fail(e.reason); // "memory at time 7 is 96, the limit is 64"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_EVALUATE_H
#define TESSERA_STRATEGIES_SEARCH_EVALUATE_H

#include "strategies/space/StrategyGraph.h"

namespace tessera::strategies {

struct Evaluation {
  bool feasible = false; // well formed, nothing forbidden, aliases agree, memory within the limit
  std::string reason;    // why it is not feasible
  Cost cost = kForbidden;
  int64_t memoryPeak = 0; // largest sum of usages over all times
  int64_t peakTime = 0;   // first time at which it occurs
};

/// Requires a graph that passes checkStrategyGraph; the choice may be anything.
Evaluation evaluate(const StrategyGraph &graph, const Choice &choice);

} // namespace tessera::strategies

#endif
