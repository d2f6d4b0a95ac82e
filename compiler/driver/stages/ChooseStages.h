//===- ChooseStages.h - stages, micro-batches and a mesh for a number of ranks -----------------------===//
//
// --pipeline auto. Trials (StageTrials.h) take strategies from a short search on the mesh of a stage and estimate the
// step in stages (compiler/pipeline/Estimate.h). Those that seem best are made in full, and the one that is predicted
// to take least is taken. One stage is a plan without stages, as ever.
//
//   Expected<ChosenStages> chosen = chooseStages(run, fitMemory);
//   // now run.pipeline, run.assign.mesh and run.training.accumulate say what was chosen
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_STAGES_CHOOSESTAGES_H
#define TESSERA_COMPILER_DRIVER_STAGES_CHOOSESTAGES_H

#include "compiler/driver/fit/FitMemory.h"

namespace tessera {

struct ChosenStages {
  FittedProgram fitted;
  ComparedStages compared;
};

/// Requires a run that has read its options, of which it sets those of the choice. `explain`: the report also says what
/// else operators could have chosen. An error says why no plan was found.
llvm::Expected<ChosenStages> chooseStages(Compilation &run, bool explain);

} // namespace tessera

#endif
