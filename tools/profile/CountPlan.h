//===- CountPlan.h - what a CUDA device would run of a plan ---------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_COUNTPLAN_H
#define TESSERA_TOOLS_PROFILE_COUNTPLAN_H

#include "strategies/cost/Topology.h"

#include "llvm/Support/Error.h"

#include <string>

namespace tessera {

/// Counts rank 0's launches, bytes and operations, by program and kind of kernel. Says how long each kind takes on a
/// device of the topology: the longer of operations / rate and bytes / bandwidth, and a launch. No device is needed.
/// Text for people, or with `json` an object; with the `largest` steps of each program, those that take longest first.
llvm::Expected<std::string> countPlan(const std::string &plan, const strategies::Topology &topology, bool tf32,
                                      bool json, int64_t largest);

} // namespace tessera

#endif
