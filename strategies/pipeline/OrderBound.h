//===- OrderBound.h - what no order of a pipeline can beat -----------------------------------------===//
//
// A device must do all its work. Between its first Forward and its first Input action the first micro-batch goes to the
// last stage and back, and all that the device can do meanwhile is Forward, as far as its memory goes. The rest of that
// time it is idle:
//
//   span of a device >= its work + way to the last stage and back - Forward actions that fit
//
// With Forward, Input and Weight actions of one length and p micro-batches in memory, zb-h1 reaches this bound.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_ORDERBOUND_H
#define TESSERA_STRATEGIES_PIPELINE_ORDERBOUND_H

#include "strategies/pipeline/Pipeline.h"

namespace tessera::strategies {

/// The longest span of a device, from its first action to its last, is no shorter. Requires a pipeline that passes
/// checkPipeline.
int64_t spanBound(const Pipeline &pipeline);

/// The makespan is no shorter: no device begins before the first micro-batch is there, and the bound of task graphs
/// holds (strategies/time/Bound.h).
int64_t makespanBound(const Pipeline &pipeline);

} // namespace tessera::strategies

#endif
