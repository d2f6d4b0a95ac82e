//===- Variants.h - what a stage keeps and what it computes again ----------------------------------===//
//
// Nodes of a stage have variants that take longer and need less memory. chooseVariants() takes the least time in which
// they fit. Sums of a part of the nodes are kept if none is both shorter and smaller (Nemhauser and Ullmann, 1969).
//
//   Variants chosen = chooseVariants(problem, nodes, way, inFlight, limit, nullptr);
//   if (chosen.fits) { chosen.time ... chosen.variants[i] of nodes[i] }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_VARIANTS_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_VARIANTS_H

#include "strategies/pipeline/stages/StageProblem.h"

#include <limits>

namespace tessera::strategies {

struct Variants {
  bool fits = false;
  int64_t time = 0;          // of `variants`
  int64_t lower = 0;         // no choice takes less: `time`, unless there were too many sums or it was given up
  std::vector<int> variants; // by place in `nodes`
};

/// Requires nodes that can all be run in this way. Nodes that are `free`, where given, need no memory. Gives up, and
/// leaves the time what a quick rule found, if `lower` is `enough` or more.
Variants chooseVariants(const StageProblem &problem, const std::vector<int> &nodes, int way, int64_t inFlight,
                        int64_t limit, const std::vector<bool> *free,
                        int64_t enough = std::numeric_limits<int64_t>::max());

} // namespace tessera::strategies

#endif
