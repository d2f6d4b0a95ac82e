//===- Passes.h - the passes of compiler/training ------------------------------------------------===//
//
// graph-build-training; Passes.td describes it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_PASSES_H
#define TESSERA_COMPILER_TRAINING_PASSES_H

#include "compiler/training/TrainingOptions.h"

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/training/Passes.h.inc"

/// Parses the options of the pass. An error says in one sentence what is wrong with which text.
llvm::Expected<TrainingOptions> parseTraining(const BuildTrainingPassOptions &options);

} // namespace tessera::compiler

#endif
