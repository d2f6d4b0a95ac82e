//===- MicroBatches.h - forward and backward, once for every micro-batch -------------------------===//
//
// Micro-batch i of n takes the rows i, i + n, i + 2n, ... of the batch, so that rows stay on the rank that has them.
// Each micro-batch starts from the states that the one before it left. Losses and gradients are added up; those of
// every micro-batch are already divided by the size of the whole batch.
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

/// Fills the created program with clones of @forward, losses and gradients. The gradients are those of the scaled
/// loss if there is a scaler.
llvm::Expected<LossAndGradients> buildMicroBatches(ProgramBuilder &program, const ForwardResults &forward,
                                                   const TrainSlots &slots, const TrainingOptions &options,
                                                   const LossScaler *scaler);

} // namespace tessera::compiler

#endif
