//===- Greedy.h - one run of a pipeline by simple rules -------------------------------------------===//
//
//   PipelineOrder order = greedyOrder(pipeline, {.most = {4, 3, 2, 1}});   // like zb-h1; empty: it stood still
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_GREEDY_H
#define TESSERA_STRATEGIES_PIPELINE_GREEDY_H

#include "strategies/pipeline/Pipeline.h"

namespace tessera::strategies {

struct GreedyRules {
  /// By stage: how many micro-batches may be between Forward and Input, at least 1.
  std::vector<int> most;
  /// A Weight action may delay what is known to come next by this part of itself, and a Forward action the next Input.
  double delay = 0, forwardDelay = 1;
  /// No Forward action delays Input of the first micro-batch: what comes before it is idle time for everybody.
  bool firstOnTime = false;
  /// Which goes first where Forward and Input are ready.
  bool forwardFirst = false;
  /// Which of several stages' Forward actions on a device goes first: that of the last stage, or that of the first
  /// micro-batches (in groups of as many as there are devices).
  bool lastStageFirst = false;
};

/// Empty if the limits of memory let no device go on.
PipelineOrder greedyOrder(const Pipeline &pipeline, const GreedyRules &rules);

} // namespace tessera::strategies

#endif
