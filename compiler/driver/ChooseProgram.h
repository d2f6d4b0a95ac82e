//===- ChooseProgram.h - from options to the program that is taken ----------------------------------===//
//
// Imports the model, chooses stages, mesh, strategies and recomputation where the options leave them open, and makes
// the program fit. What a compile does first, and what --what-if does for every line of its tables.
//
//   Compilation run(options, progress);
//   if (Error e = run.read()) ...
//   Expected<FittedProgram> fitted = chooseProgram(run, /*explain=*/false, fitMemory, model, result);
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_CHOOSEPROGRAM_H
#define TESSERA_COMPILER_DRIVER_CHOOSEPROGRAM_H

#include "compiler/driver/fit/FitMemory.h"

namespace tessera {

/// The program that fits, by `fit` unless stages are chosen. `model` gets phase 2, and `result` all that it tells of
/// the program. `explain`: the report also says what else operators could have chosen. Requires a run that has read its
/// options. Stages that are chosen become those of the run.
llvm::Expected<FittedProgram> chooseProgram(Compilation &run, bool explain, FitProgram fit,
                                            compiler::ImportedModel &model, CompileResult &result);

} // namespace tessera

#endif
