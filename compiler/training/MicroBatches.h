//===- MicroBatches.h - forward and backward, for one micro-batch ----------------------------------===//
//
// Forward and backward are written once. With several micro-batches the network's inputs are the rows of one of them
// (graph.micro_rows): of n micro-batches number i takes the rows i, i + n, i + 2n, ... of the batch, so that rows stay
// on the rank that has them. Losses and gradients, which are already divided by the size of the whole batch, are added
// up over all (graph.accumulate). What runs how often follows from that (dialects/graph/flow/Sections.h). Each
// micro-batch starts from the states that the one before it left.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_MICROBATCHES_H
#define TESSERA_COMPILER_TRAINING_MICROBATCHES_H

#include "compiler/training/LossScale.h"
#include "compiler/training/Slots.h"

namespace tessera::compiler {

/// The results of @forward that training uses.
struct ForwardResults {
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<mlir::Value> states; // by argument: its new value, null if it has none
};

struct LossAndGradients {
  mlir::Value loss;
  llvm::SmallVector<mlir::Value> gradients; // of slots.trained; null: the loss does not depend on it
};

/// Fills the created program with a clone of @forward, loss and gradients. The gradients are those of the scaled loss
/// if there is a scaler.
llvm::Expected<LossAndGradients> buildMicroBatches(ProgramBuilder &program, const ForwardResults &forward,
                                                   const TrainSlots &slots, const TrainingOptions &options,
                                                   const LossScaler *scaler);

} // namespace tessera::compiler

#endif
