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
#include "strategies/pipeline/Pipeline.h"

#include <array>
#include <map>
#include <optional>

namespace tessera::compiler {

struct PipelineOptions {
  std::string schedule = "auto";                  // a name, auto for the best order that is found, a file, or nothing
  int chunks = 1;                                 // how many stages a rank has
  bool returns = false;                           // two of them, in the shape of a V
  std::optional<strategies::PipelineOrder> order; // what the file says
  std::optional<int64_t> microBatches;            // how many, if the text says it

  /// Whether the stages themselves are to be chosen: the text "auto".
  bool isChosen() const { return schedule.empty(); }
  /// Whether the schedule is a file of an order (strategies/pipeline/PipelineIO.h).
  bool isFile() const { return llvm::StringRef(schedule).ends_with(".csv"); }
  strategies::StagePlaces places(int64_t devices) const { return {int(devices), chunks, returns}; }
};

/// "schedule=1f1b", "schedule=interleaved:2", "schedule=FILE.csv", or "auto" for stages that are to be chosen; and with
/// it or alone "micro=8". Empty text: the defaults. Reads no file.
llvm::Expected<PipelineOptions> parsePipeline(llvm::StringRef text);
/// Reads the file of the schedule, if it is one. An error if so many devices cannot take so many micro-batches in this
/// schedule.
llvm::Error completePipeline(PipelineOptions &options, int64_t devices, int64_t microBatches);

/// The stages of each device and what it holds of them at once, if the order is known and not that of 1f1b; else empty.
std::vector<strategies::StagePlace> placesOf(const PipelineOptions &options, int64_t devices, int64_t microBatches);

/// The same of stages of which none shares a device: the named order that holds least among those that hold no less in
/// any stage than this one.
strategies::InFlight inFlightOf(const PipelineOptions &options, int64_t devices, int64_t microBatches);

/// The most micro-batches of which a place holds at once what their backward passes read, if its stages are even.
int64_t heldMicroBatches(const PipelineOptions &options, int64_t devices, int64_t microBatches);

struct StageReport {
  int device = 0;                                      // place on the axis of the stages
  std::string mesh;                                    // of its ranks, if each stage has its own
  std::array<int64_t, 3> sections = {};                // of the rank's program: Forward, Input and Weight
  std::string first;                                   // name of the first operator of the forward pass
  int64_t operators = 0;                               // of the first function
  strategies::Cost forward = 0, input = 0, weight = 0; // for one micro-batch
  strategies::Cost once = 0;  // before and behind all micro-batches; of all that the rank has, in its first stage
  int64_t beside = 0;         // messages of a step that run beside kernels; of the rank, in its first stage
  int64_t bytesSent = 0;      // by one rank to other stages, for one micro-batch
  int64_t held = 0, kept = 0; // bytes that Forward leaves for Input, and both for Weight
};

struct PipelineReport {
  std::string schedule;
  int64_t microBatches = 1;
  strategies::Cost predicted = 0; // of a step
  strategies::Cost least = 0;     // no order takes less in the same memory; 0: nothing was searched
  double bubble = 0;              // the part of the time of all stages in which they wait for one another
  std::vector<StageReport> stages;
  std::vector<strategies::Cost> transfers;       // between a stage and the next, for one micro-batch
  std::vector<int> inFlight;                     // by device: micro-batches that it holds at once; empty without them
  std::map<std::string, strategies::Cost> steps; // by function: how long it is predicted to take
};

/// The modules of the stages, in their order. Empty: the module is no pipeline.
llvm::SmallVector<mlir::ModuleOp> stagesOf(mlir::ModuleOp module);

/// Prices all functions of all stages, and gives the training step its calls if it has micro-batches. What the report
/// says of stages is of the training step, else of the first function. `own`: of stages with meshes of their own the
/// costs of each; `costs` are those of messages then.
llvm::Error orderStages(mlir::ModuleOp module, const PipelineCosts &costs, const PipelineOptions &options,
                        PipelineReport &report, llvm::ArrayRef<PipelineCosts> own = {});

} // namespace tessera::compiler

#endif
