//===- Modes.h - the modes, each of which fills a FunctionAssignment --------------------------------===//
//
// Every mode has one file. assignStrategies (Assign.h) calls the mode that the options name for every function of the
// module. The training step comes first, so that the others take over its parameters' shardings.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_MODES_H
#define TESSERA_STRATEGIES_MODES_MODES_H

#include "strategies/cost/ProgramCost.h"
#include "strategies/modes/Assign.h"
#include "strategies/modes/BesideSearch.h"
#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

/// An error if the topology does not fit the mesh.
llvm::Error checkMesh(const AssignOptions &options);

/// Every operator cuts its batch by all axes that divide it.
llvm::Error assignData(FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared);
/// Operators take the user's strategies; every other operator cuts its batch.
llvm::Error assignSemiAuto(FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared);
/// Is told an answer that fits, and the bytes of a rank that it needs (0: where all answers fit they are not counted),
/// while the search goes on: it seldom changes how parameters lie.
using OnAnswer = std::function<void(const FunctionAssignment &, int64_t)>;
/// A search under the cost model chooses; the user's strategies are constraints. `search` gets what it found out, and
/// `planned` what the choice costs as it will be partitioned. `bound` tells `search` the rest. `answered` may be empty.
llvm::Error assignAuto(FunctionAssignment &function, const AssignOptions &options, Prices &prices,
                       const SharedShardings &shared, SearchReport &search, ProgramCost &planned, BesideBound &bound,
                       const OnAnswer &answered);

} // namespace tessera::strategies

#endif
