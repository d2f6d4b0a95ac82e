//===- PriceSweep.h - what the fast searchers share: prices until memory fits --------------------===//
//
// The fast searchers decide once, in some order, by the costs that they are given. The sweep runs such a searcher
// without a price on memory, and then with one price on all memory that grows until the answer fits. Then it tries
// prices between the last that did not fit and the first that did, and keeps the best answer that fits.
//
// Example:
//   return priceSweep(graph, options, [](const FlatProblem &flat, const std::vector<double> &costs) {
//     return someAnswer(flat, costs); // costs: one per variable and option, memory included
//   });
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PRICESWEEP_H
#define TESSERA_STRATEGIES_SEARCH_PRICESWEEP_H

#include "strategies/search/Incumbent.h"

#include <functional>

namespace tessera::strategies {

using Decide = std::function<Answer(const FlatProblem &flat, const std::vector<double> &costs)>;

Solution priceSweep(const StrategyGraph &graph, const SearchOptions &options, const Decide &decide);

} // namespace tessera::strategies

#endif
