//===- Passes.h - assignment as a pass -----------------------------------------------------------===//
//
//   tessera-opt --assign-strategies="mesh=data=2,model=2 mode=semi-auto strategy=fc.json" m.mlir
//
// Passes.td describes the options.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_PASSES_H
#define TESSERA_STRATEGIES_MODES_PASSES_H

#include "strategies/modes/Assign.h"

#include "mlir/Pass/Pass.h"

namespace tessera::strategies {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "strategies/modes/Passes.h.inc"

/// Reads the pass's options and the files that they name. Fails with one sentence on what is wrong.
llvm::Expected<AssignOptions> parseAssign(const AssignStrategiesPassOptions &options);

/// The pass with options that are read already. It writes `report`, even where it fails.
std::unique_ptr<mlir::Pass> createAssignStrategiesPass(AssignOptions options, AssignReport &report);

} // namespace tessera::strategies

#endif
