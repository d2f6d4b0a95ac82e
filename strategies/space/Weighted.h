//===- Weighted.h - a search problem in which kernels and links count by weights -----------------===//
//
// Where collectives run beside kernels, a step takes at least as long as its kernels, and at least as long as its
// messages: max(C, M), and no mean of C and M with weights is more. So the least weighted sum of all choices, which a
// search finds as it finds the least sum, is a lower bound of the step, whatever is hidden. And the choice that has it
// is worth a try: with other weights less is computed, or less is sent.
//
//   WideGraph problem = weighted(built.wide, {.compute = 3, .communication = 1});
//   Solution found = searchWide(problem, options).solution;
//   weights.bound(found.lowerBound)            // ns: no step takes less
//
// Kernels take longer beside messages, by a part s of their time at least. So no step takes less than C + s M either,
// and in each mean C may count with s M.
//
// M is what messages take at least, however they are joined (CostParts).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_WEIGHTED_H
#define TESSERA_STRATEGIES_SPACE_WEIGHTED_H

#include "strategies/space/WideGraph.h"

namespace tessera::strategies {

/// Whole numbers, so that weighted costs are.
struct Weights {
  int64_t compute = 1, communication = 1;
  int64_t slowing = 0; // what messages count more, since they slow down the kernels beside them

  int64_t sum() const { return compute + communication; }
  Cost of(CostParts parts) const { return compute * parts.compute + (communication + slowing) * parts.least; }
  /// What a step is at least if no choice has a weighted cost below `cost`: max(C + s M, M), where slowing is s times the
  /// weight of C + s M in the mean.
  Cost bound(Cost cost) const { return (cost + sum() - 1) / sum(); }
};

/// The problem with other costs: options, states and memory are the same. What is forbidden stays so. Requires parts of
/// all costs.
WideGraph weighted(const WideGraph &wide, Weights weights);

/// The parts of what these options cost, by node; a copy that several readers want counts once. Requires parts of all
/// costs, none of them forbidden. Memory does not count.
CostParts partsOf(const WideGraph &wide, const std::vector<int32_t> &options);

} // namespace tessera::strategies

#endif
