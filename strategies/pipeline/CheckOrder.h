//===- CheckOrder.h - whether a pipeline can run in an order that somebody wrote --------------------===//
//
// Line d + 1 of the file (PipelineIO.h) is device d. Every sentence names the line, the task and what helps:
//
//   o.csv: line 2: 1F3 comes before 1F2; an action of a stage takes the micro-batches in order
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_CHECKORDER_H
#define TESSERA_STRATEGIES_PIPELINE_CHECKORDER_H

#include "strategies/pipeline/Pipeline.h"

namespace tessera::strategies {

/// Empty if the order has every task of the pipeline once, on its device, where nothing waits for ever; else one
/// sentence that begins with `name`. The pipeline passes checkPipeline. Memory is not looked at.
std::string checkOrder(const Pipeline &pipeline, const PipelineOrder &order, const std::string &name);

} // namespace tessera::strategies

#endif
