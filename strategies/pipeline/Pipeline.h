//===- Pipeline.h - micro-batches that pass through stages, as plain numbers ----------------------===//
//
// A Pipeline has stages in the order of the data, each on a device. Several stages may share a device (interleaved, or
// there and back in the shape of a V). Every micro-batch has three actions in every stage:
//
//   Forward   after the stage before
//   Input     the gradients of the stage's inputs, after Forward and after Input of the stage behind
//   Weight    the gradients of its weights, after Input
//
// An order says what each device does, one task after the other. The tasks of two stages on four micro-batches:
//
//   Pipeline pipeline = evenPipeline({.devices = 2, .microBatches = 4, .forward = 10, .input = 10, .weight = 8});
//   PipelineRun run = runInOrder(pipeline, zeroBubble1(pipeline));
//   run.makespan, run.peak[0]
//
// Times are whole numbers, bytes too; the caller chooses the units. Micro-batches are alike, so in every stage an
// action takes them in order: nothing is lost by that.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_PIPELINE_H
#define TESSERA_STRATEGIES_PIPELINE_PIPELINE_H

#include "strategies/time/TaskGraph.h"

namespace tessera::strategies {

struct PipelineStage {
  int device = 0;
  int64_t forward = 0, input = 0, weight = 0; // durations of the actions for one micro-batch
  int64_t held = 0;                           // bytes from the start of Forward to the end of Input
  int64_t kept = 0;                           // bytes from the end of Input to the end of Weight
};

/// Where the stages of a pipeline lie. A device's stages, in the order of the data, are its chunks.
struct StagePlaces {
  int devices = 1, chunks = 1;
  bool returns = false; // two chunks in the shape of a V; else stage s lies on device s modulo `devices`

  int stages() const { return devices * chunks; }
  int deviceOf(int stage) const { return returns && stage >= devices ? stages() - 1 - stage : stage % devices; }
  int chunkOf(int stage) const { return stage / devices; }
};

struct Pipeline {
  int devices = 1, microBatches = 1;
  std::vector<PipelineStage> stages;
  std::vector<int64_t> transfers; // between a stage and the next, in both directions alike
  std::vector<int64_t> limits;    // of memory, by device; negative: none
};

enum class Action { Forward, Input, Weight };

inline int64_t durationOf(const PipelineStage &stage, Action action) {
  return action == Action::Forward ? stage.forward : action == Action::Input ? stage.input : stage.weight;
}

struct PipelineTask {
  Action action = Action::Forward;
  int stage = 0, microBatch = 0;
};

/// By device.
using PipelineOrder = std::vector<std::vector<PipelineTask>>;

/// What a pipeline of equal stages is made of. Times are of a whole device; each of its `chunks` stages takes its part.
struct EvenPipeline {
  int devices = 1, microBatches = 1;
  int chunks = 1; // of StagePlaces, as the next one
  bool returns = false;
  int64_t forward = 0, input = 0, weight = 0, transfer = 0;
  int64_t held = 0, kept = 0;
};

/// Transfers between stages on one device take no time. There are no limits of memory.
Pipeline evenPipeline(const EvenPipeline &even);

/// Input and Weight as one action: the stage before waits for both.
Pipeline withWholeBackward(Pipeline pipeline);

/// What the device with the most to do must do, whatever the order.
int64_t mostWork(const Pipeline &pipeline);

/// Empty if the pipeline is well formed, else one sentence about what is wrong.
std::string checkPipeline(const Pipeline &pipeline);

/// Place of a task in pipelineTasks.
inline int taskOf(const Pipeline &pipeline, PipelineTask task) {
  return (task.stage * pipeline.microBatches + task.microBatch) * 3 + int(task.action);
}

/// The same as a TaskGraph: a resource and a pool per device.
TaskGraph pipelineTasks(const Pipeline &pipeline);

struct PipelineRun {
  std::string error;         // what the order lacks, or where it stands still; empty: none
  StartTimes start;          // by taskOf
  int64_t makespan = 0;      // from 0 to the end of the last task
  int64_t longestSpan = 0;   // of a device, from its first task to its last
  std::vector<int64_t> peak; // bytes, by device
};

/// Lets every task start as early as the order allows. Memory is counted and not limited.
PipelineRun runInOrder(const Pipeline &pipeline, const PipelineOrder &order);

/// A whole step: the run between what every device does `once`, before and behind all micro-batches. The only home of a
/// pipeline's predicted time. Requires a run without error.
struct PipelineStep {
  int64_t time = 0;
  double bubble = 0;         // the part of the time of all devices in which they wait for one another
  std::vector<int64_t> busy; // by device
};
PipelineStep stepOf(const Pipeline &pipeline, const PipelineRun &run, const std::vector<int64_t> &once);

/// By device the most micro-batches, each counted in every stage, that are between Forward and the end of Weight.
std::vector<int> mostInFlight(const Pipeline &pipeline, const PipelineOrder &order);

/// By device, by moment and chunk: how many micro-batches a device holds at once, from Forward to the end of Weight. Of
/// moments at which every chunk holds no more than at another, that other one alone.
std::vector<std::vector<std::vector<int>>> mostHeld(const Pipeline &pipeline, const PipelineOrder &order);

/// Whether a run keeps the limits of memory.
bool fits(const Pipeline &pipeline, const PipelineRun &run);

} // namespace tessera::strategies

#endif
