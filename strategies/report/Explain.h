//===- Explain.h - what else an operator could have chosen, and at what price ------------------------===//
//
// For every operator that had a choice of its own, the cheapest other options. Each is priced as an exchange: the
// operator takes the option, its neighbours in the strategy graph may answer (one after the other, everything else
// as chosen), and the difference of the program's predicted time is split into kernels and communication, and
// into what grows with the batch and what does not: so a reader can tell what would have to be otherwise.
//
// The operators of one layer in all micro-batches choose alike: differences are of all together.
//
//   fc1 chosen "n=model"; alternative "m=model": kernels -3 us, communication +40 us, of both +10 us with the batch
//
// The search has looked farther than one exchange: a difference is at least zero where its choice is proven best.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_REPORT_EXPLAIN_H
#define TESSERA_STRATEGIES_REPORT_EXPLAIN_H

#include "strategies/graph/BuildGraph.h"
#include "strategies/report/Report.h"

namespace tessera::strategies {

/// By index of the operator; operators that follow another one have no entry.
std::map<int, std::vector<Alternative>> explainChoice(const FunctionAssignment &function, const CostModel &model,
                                                      const BuiltGraph &built, const Choice &choice);

} // namespace tessera::strategies

#endif
