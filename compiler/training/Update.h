//===- Update.h - from gradients to new parameters -----------------------------------------------===//
//
// The update runs in this order: gradients are summed over ranks (in mode hybrid), divided by the loss scale, clipped,
// and handed to the optimizer with the step's learning rate. The results of @train are then
//
//   loss | parameters | running statistics | the optimizer's states | the loss scale's states | learning rate | norm
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_UPDATE_H
#define TESSERA_COMPILER_TRAINING_UPDATE_H

#include "compiler/training/MicroBatches.h"

namespace tessera::compiler {

/// Appends the update and the results to the program. The caller finishes it.
llvm::Error buildUpdate(ProgramBuilder &program, const ForwardResults &forward, const TrainSlots &slots,
                        const TrainingOptions &options, LossAndGradients found, std::optional<LossScaler> scaler);

} // namespace tessera::compiler

#endif
