//===- LeastTime.h - what kernels and collectives take in any schedule --------------------------------===//
//
// A bound for all that Messages.h and Overlap.h choose between: which collectives share a message, which messages run
// beside kernels, and when. So it says of a step how much another schedule of the same kernels and collectives could
// save at most.
//
//   LeastSteps steps;                                // by step of the flow: a kernel, a collective, a kernel
//   steps.times = {{1000}, {5000, /*link=*/0, /*least=*/{4000}, /*grows=*/{3900}}, {1000}};
//   leastTime(flow, steps)                           // ns: no schedule takes less
//
// Kernels run one after the other, and so do messages of one kind of link. What reads a collective waits for all of its
// time, since a message takes no less than each of its members. Of its link a collective takes what it adds to the best
// message. But those that wait for each other, as in a chain, are in different messages: each of these has its start.
// Beside kernels messages delay them, and in line kernels wait for all of it. All of that is a TaskGraph, whose bound
// is taken (strategies/time/Bound.h). Memory is any.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_OVERLAP_LEASTTIME_H
#define TESSERA_STRATEGIES_OVERLAP_LEASTTIME_H

#include "dialects/graph/flow/DataFlow.h"

namespace tessera::strategies {

/// A part of a message.
struct MessagePart {
  int64_t ns = 0;   // of its time
  int64_t work = 0; // of what it delays kernels by; at most ns
};

/// A step, sent alone if it is a collective.
struct LeastStep {
  int64_t ns = 0;         // of one run
  int link = -1;          // of a collective: the kind of link that it loads; -1: a kernel
  MessagePart least = {}; // of a collective: of any message; the parts add up to no more than the message
  MessagePart grows = {}; // of a collective: what it adds to any other message; no more than `least`
  int64_t work = 0;       // of a collective: by how much it delays kernels
};

struct LeastSteps {
  std::vector<LeastStep> times; // by step
  int64_t runs = 1;             // of each section of the body
  double slowing = 0;           // the least part of a message's time by which it delays kernels, from 0 to 1
};

/// In ns. The steps of the flow are in dependence order. `divide`: look at divisions, too; that takes milliseconds.
int64_t leastTime(const graph::DataFlow &flow, const LeastSteps &steps, bool divide = true);

} // namespace tessera::strategies

#endif
