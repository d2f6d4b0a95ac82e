//===- Costs.h - what a step's time goes to, and what would lower it -----------------------------------===//
//
// Operators that are alike are one cost, with what their gradients and updates take. Every kind of collective over the
// same axes is one cost. All costs together are the work of a step: the predicted step, but for a pipeline, whose
// stages work beside each other.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_COSTS_H
#define TESSERA_TOOLS_PAGE_COSTS_H

#include "tools/page/Network.h"

namespace tessera {

struct CostItem {
  std::string what; // "l0.up", or "all-reduce over data"
  std::string kind; // of the operator or collective
  bool communication = false;
  size_t count = 0;         // operators that are alike, collectives
  double ns = 0, share = 0; // of the work
  double latency = 0;       // of a collective's ns: what faster links do not lower
  int node = -1;            // the first of the operators
  std::string lower = {};   // what would lower it: one sentence
};

/// The costs of a step, the largest first.
std::vector<CostItem> costItems(const Network &network, const Json &report);

/// The predicted step, ns, if all links had `times` their bandwidth and nothing else changed. Less than 0: the report
/// does not know how much of its collectives is latency.
double withBandwidth(const Json &function, double times);

Json toJson(const std::vector<CostItem> &items);

} // namespace tessera

#endif
