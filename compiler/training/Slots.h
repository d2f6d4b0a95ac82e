//===- Slots.h - the arguments of @train ---------------------------------------------------------===//
//
//   step | inputs | target | parameters | running statistics | the optimizer's states | the loss scale's states
//
// Inputs and target are those of the whole step: with n micro-batches their dimension 0 is n times that of the network.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_SLOTS_H
#define TESSERA_COMPILER_TRAINING_SLOTS_H

#include "compiler/training/ProgramBuilder.h"
#include "compiler/training/TrainingOptions.h"

namespace tessera::compiler {

/// Indices of arguments.
struct TrainSlots {
  static constexpr unsigned kStep = 0, kFirstInput = 1;
  std::optional<unsigned> target;
  llvm::SmallVector<unsigned> trained; // parameters of floating point that are not frozen
  unsigned firstState = 0;             // running statistics, in the order of @forward's
  unsigned firstMoment = 0;            // the optimizer's states: all of the first trained parameter, then the next's
  unsigned firstScale = 0;             // the loss scale's states, if there is one
  bool doubles = false;                // some parameter has float64
};

/// Adds the arguments to the program. `target` is the type of the targets of one micro-batch, or null if the loss needs
/// none. Fails if the model has nothing to train, or has no batch dimension that micro-batches could cut.
llvm::Expected<TrainSlots> addTrainSlots(ProgramBuilder &program, const TrainingOptions &options,
                                         mlir::RankedTensorType target);

} // namespace tessera::compiler

#endif
