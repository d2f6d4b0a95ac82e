//===- MessageRuns.h - runs of members as messages -----------------------------------------------------===//
//
// Members of which none depends on another one can share messages in any way. Messages are runs of them in the order of
// execution: of the choices under which the step ends earliest, one with the fewest messages, by a dynamic program over
// the last member of a message.
//
//   runsOf({a, b, c}, total, rule)      // {{a, b}}: c is sent alone
//
// This header is private to the choice of messages.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_MESSAGERUNS_H
#define TESSERA_DIALECTS_GRAPH_FLOW_MESSAGERUNS_H

#include "dialects/graph/flow/MessageMembers.h"

namespace tessera::graph {

/// The steps of the runs of two or more. `total`: what all kernels take. Without times runs are as long as the rule
/// allows.
std::vector<std::vector<int>> runsOf(std::vector<Member> members, double total, const MessageRule &rule);

} // namespace tessera::graph

#endif
