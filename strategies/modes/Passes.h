//===- Passes.h - assignment as a pass -----------------------------------------------------------===//
//
//   tessera-opt --assign-strategies="mesh=data=2,model=2 mode=semi-auto strategy=fc.json" m.mlir
//
// Options: mesh, mode, strategy (a file), topology (preset or file), memory.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_PASSES_H
#define TESSERA_STRATEGIES_MODES_PASSES_H

#include "strategies/modes/Assign.h"

#include "mlir/Pass/Pass.h"

namespace tessera::strategies {

std::unique_ptr<mlir::Pass> createAssignStrategiesPass();
void registerAssignPasses();

} // namespace tessera::strategies

#endif
