//===- Modes.h - the modes, each of which fills a FunctionAssignment --------------------------------===//
//
// One file per mode. assignStrategies (Assign.h) calls the one that the options name, for every function of the
// module in turn: the training step first, so that the others take over its parameters' shardings.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_MODES_H
#define TESSERA_STRATEGIES_MODES_MODES_H

#include "strategies/modes/Assign.h"
#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

/// Every operator splits its batch over all axes that divide it.
llvm::Error assignData(FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared);
/// The user's strategies; every other operator splits its batch.
llvm::Error assignSemiAuto(FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared);
/// A search under the cost model; the user's strategies are constraints. `search`: what it found out.
llvm::Error assignAuto(FunctionAssignment &function, const AssignOptions &options, const CostModel &model,
                       const SharedShardings &shared, SearchReport &search);

} // namespace tessera::strategies

#endif
