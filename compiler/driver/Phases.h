//===- Phases.h - the six phases, a function each ------------------------------------------------===//
//
// Each function takes the module from one phase to the next and ends with the verifier of the new phase. This header is
// private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_PHASES_H
#define TESSERA_COMPILER_DRIVER_PHASES_H

#include "compiler/driver/Compilation.h"
#include "compiler/driver/OutputDirectory.h"

#include "compiler/transform/Passes.h"

namespace tessera {

struct CutMemory; // fit/CutAgain.h

/// 1, imported: global tensors, no loss.
llvm::Expected<compiler::ImportedModel> importModel(Compilation &run);

/// 2, training: the step with its gradients and update where the model is trained; norms decomposed.
llvm::Error buildPrograms(Compilation &run, mlir::ModuleOp module);

/// Phases 1 and 2 without a word.
llvm::Expected<compiler::ImportedModel> quietModel(Compilation &run);

/// Phases 1 and 2, with progress, warnings and dumps.
llvm::Expected<compiler::ImportedModel> preparedModel(Compilation &run);

/// Between phases 2 and 3: recomputes activations for the backward half.
llvm::Error recompute(Compilation &run, mlir::ModuleOp module, const compiler::RecomputePassOptions &again);

/// Between phases 2 and 3: leaves open whether copies of parameters are kept, and keeps none of activations if asked.
llvm::Error expireCopies(Compilation &run, mlir::ModuleOp module, bool activations);

/// 3, annotated: a strategy on every operator. `report` is filled even if the function fails.
llvm::Error annotate(Compilation &run, mlir::ModuleOp module, const strategies::AssignOptions &assign,
                     strategies::AssignReport &report);

/// 4, resharded: every change of sharding is an operator.
llvm::Error reshard(Compilation &run, mlir::ModuleOp module);

/// 5, local: one rank's types and collectives. `model` is the cost model with which the strategies were chosen. In mode
/// hybrid the module comes from phase 2.
llvm::Error localize(Compilation &run, mlir::ModuleOp module, const strategies::CostModel &model, bool fuse,
                     const strategies::JoinOptions &join);
/// The same for a mesh with stages, in four steps: phase 5 of the whole network; the module gets a module per stage,
/// and what lies in which is returned; its sections get their order, for which `join` says how collectives are sent;
/// loops and messages are formed.
llvm::Error localizeWhole(Compilation &run, mlir::ModuleOp module, const strategies::CostModel &model);
llvm::Expected<compiler::OperatorStages> cutIntoStages(Compilation &run, mlir::ModuleOp module,
                                                       const strategies::CostModel &model, CutMemory &memory);
llvm::Error orderStages(Compilation &run, mlir::ModuleOp module, const strategies::CostModel &model,
                        const strategies::JoinOptions &join, compiler::PipelineReport &report);
/// `costs`: of each stage.
struct StageCosts {
  const strategies::CostModel *collectives, *kernels; // on its mesh, and on all ranks
};
llvm::Error finishStages(Compilation &run, mlir::ModuleOp module, llvm::function_ref<StageCosts(int64_t stage)> costs,
                         const strategies::JoinOptions &join);
/// The second step where the operators are placed.
llvm::Error cutPlaced(Compilation &run, mlir::ModuleOp module, const strategies::StagePlaces &places);
/// The costs of kernels and messages where all stages have one mesh.
strategies::CostModel costsOfAllStages(const Compilation &run);

/// 6, plan: weights and one plan per rank in the directory. `whole`: the unpartitioned program, or none.
llvm::Error emit(Compilation &run, mlir::ModuleOp local, mlir::ModuleOp whole, const compiler::WeightStore &weights,
                 const OutputDirectory &output);
/// The options of emission, without the weights.
compiler::EmitOptions emitOptions(const CompileOptions &options);

} // namespace tessera

#endif
