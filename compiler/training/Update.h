//===- Update.h - from gradients to new parameters -----------------------------------------------===//
//
// In this order: gradients are summed over ranks (in a program that is one rank's), freed of the loss scale, clipped,
// and handed to the optimizer at the step's learning rate. Then the results of @train:
//
//   loss | parameters | running statistics | the optimizer's states | the loss scale's states | learning rate | norm
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_UPDATE_H
#define TESSERA_COMPILER_TRAINING_UPDATE_H

#include "compiler/training/MicroBatches.h"

namespace tessera::compiler {

/// Appends all of this to the program, which is not finished yet.
llvm::Error buildUpdate(ProgramBuilder &program, const ForwardResults &forward, const TrainSlots &slots,
                        const TrainingOptions &options, LossAndGradients found, std::optional<LossScaler> scaler);

} // namespace tessera::compiler

#endif
