//===- Training.h - from a network to a training program -----------------------------------------===//
//
// buildTraining turns the functions of the importer into the functions that are partitioned:
//
//   @forward (inputs, parameters, states[, step]) -> outputs, updates       training mode, consumed
//   @infer   (inputs, parameters, states) -> outputs                        inference mode, kept
//
//   @train   (step, inputs, target, parameters, states)  -> loss, updates
//   @eval    (inputs, target, parameters, states) -> outputs, loss, correct, predictions
//
// Arguments and results carry the attributes of dialects/graph/Graph.h. The states of @train are
// @forward's (running statistics) and then the optimizer's, which start as zeros (graph.fill).
// Every argument that changes carries graph.update; a parameter that the loss does not depend on
// does not change, as in PyTorch. `loss` is the mean over the global batch; `correct` (losses over
// classes only) counts the predictions that hit and `predictions` how many were made.
//
// With options.accumulate = n, the batch of @train is n times that of the network (@forward), and @train computes one
// micro-batch after the other (MicroBatches.h). The gradients are added up, and the parameters are updated once. `loss`
// is the mean over the whole batch. BatchNorm takes its statistics from a micro-batch and updates its running
// statistics n times. Every micro-batch has random numbers of its own.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_TRAINING_H
#define TESSERA_COMPILER_TRAINING_TRAINING_H

#include "compiler/training/TrainingOptions.h"

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler {

llvm::Error buildTraining(mlir::ModuleOp module, const TrainingOptions &options);

} // namespace tessera::compiler

#endif
