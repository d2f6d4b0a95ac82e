//===- NamedOrders.h - the orders that have names in the field ------------------------------------===//
//
// Each has one stage per device, except for the last two. With p devices and m micro-batches, and with F, B, W for the
// durations of Forward, Input and Weight, what is left idle on equal stages with transfers of no time:
//
//   gpipe          (p - 1)(F + B + W)       memory of m micro-batches
//   oneForwardOneBackward
//                  (p - 1)(F + B + W)       of p: "1f1b" (PipeDream-flush; Narayanan et al., SC 2021)
//   zeroBubble1    (p - 1)(F + B - W)       of p: "zb-h1" (Qi et al., ICLR 2024)
//   zeroBubble2    (p - 1)(F + B - 2 W)     of 2 p - 1: "zb-h2" (the same)
//   interleaved    (p - 1)(F + B + W) / v   of p (1 + (p - 1) / (p v)), with v stages per device (Narayanan et al.)
//   zeroBubbleV    nothing if F = B = W     of p: "zb-v", with two stages per device (Qi et al., NeurIPS 2024)
//
// Idle time is counted from a device's first task to its last. gpipe, 1f1b and interleaved do not part a backward pass:
// give them withWholeBackward(pipeline).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_NAMEDORDERS_H
#define TESSERA_STRATEGIES_PIPELINE_NAMEDORDERS_H

#include "strategies/pipeline/Pipeline.h"

namespace tessera::strategies {

/// An order that fits a pipeline, and the pipeline as it sees it.
struct NamedOrder {
  const char *name; // as users know it: "1f1b", "zb-h1", ...
  bool whole;       // it is meant for withWholeBackward(pipeline)
  PipelineOrder order;
};

/// All that apply to the pipeline's places and its number of micro-batches. Limits of memory are not looked at.
std::vector<NamedOrder> namedOrders(const Pipeline &pipeline);

PipelineOrder gpipe(const Pipeline &pipeline);
PipelineOrder oneForwardOneBackward(const Pipeline &pipeline);
PipelineOrder zeroBubble1(const Pipeline &pipeline);
PipelineOrder zeroBubble2(const Pipeline &pipeline);

/// Requires stage s on device s modulo the number of devices, as many stages on each, and micro-batches that the number
/// of devices divides.
PipelineOrder interleaved(const Pipeline &pipeline);

/// Requires 2 p stages on p devices, stage s and stage 2 p - 1 - s on device s, and 2 p micro-batches or more.
PipelineOrder zeroBubbleV(const Pipeline &pipeline);

} // namespace tessera::strategies

#endif
