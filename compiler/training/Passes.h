//===- Passes.h - the passes of compiler/training ----------------------------------------------------===//
//
//   graph-build-training    @forward, @infer to @train, @eval (Training.h); options loss, optimizer,
//                           schedule, clip-norm, aux as TrainingOptions.h describes them
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_PASSES_H
#define TESSERA_COMPILER_TRAINING_PASSES_H

namespace tessera::compiler {

/// Makes the passes known by name.
void registerTrainingPasses();

} // namespace tessera::compiler

#endif
