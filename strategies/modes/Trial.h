//===- Trial.h - what a search chooses for a function, which stays as it is ------------------------===//
//
// To compare meshes and pipelines takes many searches of one function. A trial writes nothing into the function and
// words no report, so that trials of one function may go on side by side.
//
//   const Program program = cantFail(Program::analyse(train));
//   Trial trial;
//   if (llvm::Error e = tryStrategies(program, options, trial)) ... // trial.search.doesNotFit says why
//   trial.cost.predicted()
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_TRIAL_H
#define TESSERA_STRATEGIES_MODES_TRIAL_H

#include "strategies/cost/ProgramCost.h"
#include "strategies/modes/Assign.h"
#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

struct Trial {
  std::optional<FunctionAssignment> function; // what is chosen
  ProgramCost cost;
  SearchReport search; // is filled even if the search fails
};

/// What mode auto chooses without strategies of a user. `shared`: what earlier functions of the module have decided.
llvm::Error tryStrategies(const Program &program, const AssignOptions &options, Trial &trial,
                          const SharedShardings &shared = {});

} // namespace tessera::strategies

#endif
