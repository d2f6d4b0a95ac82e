//===- Calls.h - which stage does what when ------------------------------------------------------------===//
//
// The stages of a module, as dist-cut-stages has made them, are priced before their operators are fused. Of the times
// follows a strategies::Pipeline, of its order the calls of every stage (dist.calls).
//
//   PipelineOptions options = *parsePipeline("schedule=1f1b");
//   PipelineReport report;
//   if (llvm::Error e = orderStages(module, costs, options, report)) ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_CALLS_H
#define TESSERA_COMPILER_PIPELINE_CALLS_H

#include "compiler/pipeline/PlaceOperators.h"

namespace tessera::compiler {

struct PipelineOptions {
  std::string schedule = "auto"; // gpipe, 1f1b, zb-h1, or auto: the best that is found
};

/// "schedule=1f1b". Empty text: the defaults.
llvm::Expected<PipelineOptions> parsePipeline(llvm::StringRef text);

struct StageReport {
  std::string first;                                   // name of the first operator of the forward pass
  int64_t operators = 0;                               // of the first function
  strategies::Cost forward = 0, input = 0, weight = 0; // for one micro-batch
  strategies::Cost once = 0;                           // before and behind all micro-batches
  int64_t bytesSent = 0;                               // by one rank to other stages, for one micro-batch
};

struct PipelineReport {
  std::string schedule;
  int64_t microBatches = 1;
  strategies::Cost predicted = 0; // of a step
  double bubble = 0;              // the part of the time of all stages in which they wait for one another
  std::vector<StageReport> stages;
};

/// The modules of the stages, in their order. Empty: the module is no pipeline.
llvm::SmallVector<mlir::ModuleOp> stagesOf(mlir::ModuleOp module);

/// Prices the training step of all stages, else their first function, and gives it its calls if it has micro-batches.
llvm::Error orderStages(mlir::ModuleOp module, const PipelineCosts &costs, const PipelineOptions &options,
                        PipelineReport &report);

} // namespace tessera::compiler

#endif
