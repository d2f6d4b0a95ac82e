//===- Phases.h - the six phases, a function each ------------------------------------------------===//
//
// Each takes the module from one phase to the next and closes it with its verifier. Private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_PHASES_H
#define TESSERA_COMPILER_DRIVER_PHASES_H

#include "compiler/driver/Compilation.h"
#include "compiler/driver/OutputDirectory.h"

#include "compiler/transform/Passes.h"

namespace tessera {

/// 1, imported: global tensors, no loss.
llvm::Expected<compiler::ImportedModel> importModel(Compilation &run);

/// 2, training: the step with its gradients and update where the model is trained; norms decomposed.
llvm::Error buildPrograms(Compilation &run, mlir::ModuleOp module);

/// Both, told and dumped.
llvm::Expected<compiler::ImportedModel> preparedModel(Compilation &run);

/// Between 2 and 3: makes activations again for the backward half.
llvm::Error recompute(Compilation &run, mlir::ModuleOp module, const compiler::RecomputePassOptions &again);

/// 3, annotated: a strategy on every operator. `report` says what was found, also where it fails.
llvm::Error annotate(Compilation &run, mlir::ModuleOp module, const strategies::AssignOptions &assign,
                     strategies::AssignReport &report);

/// 4, resharded: every change of sharding is an operator.
llvm::Error reshard(Compilation &run, mlir::ModuleOp module);

/// 5, local: one rank's types and collectives. `model` is the one that the strategies were chosen by.
llvm::Error localize(Compilation &run, mlir::ModuleOp module, const strategies::CostModel &model, bool fuse);
/// The same for a program that is local from the start.
llvm::Error finishLocal(Compilation &run, mlir::ModuleOp module);

/// 6, plan: weights and one plan per rank in the directory. `whole`: the unpartitioned program, or none.
llvm::Error emit(Compilation &run, mlir::ModuleOp local, mlir::ModuleOp whole, const compiler::WeightStore &weights,
                 const OutputDirectory &output);
/// What plans are made with, but for the weights.
compiler::EmitOptions emitOptions(const Compilation &run);

} // namespace tessera

#endif
