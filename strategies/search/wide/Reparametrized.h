//===- Reparametrized.h - a dense problem that begins at a wide bound ------------------------------===//
//
// A search of what is left begins with a bound of its own, which it takes many passes to raise to where the bound over
// every option stands already. So costs are moved first, as the messages of that bound say: what an option is likely to
// cost beside its neighbours stands at its node then, and edges have the rest. Every choice costs what it did.
//
//   const StrategyGraph moved = reparametrized(wide, dense, dual.known());
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_WIDE_REPARAMETRIZED_H
#define TESSERA_STRATEGIES_SEARCH_WIDE_REPARAMETRIZED_H

#include "strategies/search/wide/WideDual.h"

namespace tessera::strategies {

/// `dense`: of `wide`. `known`: of a bound over the options of `dense`, at least. No cost is negative; where the bound
/// is, costs are what they were.
StrategyGraph reparametrized(const WideGraph &wide, const DenseGraph &dense, const WideDual::Known &known);

} // namespace tessera::strategies

#endif
