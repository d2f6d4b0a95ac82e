//===- PriceSweep.h - what the fast searchers share: prices until memory fits --------------------===//
//
// The fast searchers decide once, in some order, with the costs that they are given. Here they are run with
// no price on memory, then with one price on all of it that grows until the answer fits; the best answer that
// fits is kept and its price refined between the last that did not fit and the first that did.
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
