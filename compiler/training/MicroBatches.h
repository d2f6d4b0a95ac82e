//===- MicroBatches.h - forward and backward, once for every micro-batch -------------------------===//
//
// Micro-batch i of n takes the rows i, i + n, i + 2n, ... of the batch: rows that lie on one rank stay there. States
// of the network go from one micro-batch to the next. Losses and gradients are added up; every micro-batch's are
// already divided by the size of the whole batch.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_MICROBATCHES_H
#define TESSERA_COMPILER_TRAINING_MICROBATCHES_H

#include "compiler/training/LossScale.h"
#include "compiler/training/Slots.h"

namespace tessera::compiler {

/// What training needs to know of @forward's results.
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
