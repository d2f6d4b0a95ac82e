//===- Passes.h - from an annotated program to one rank's program -----------------------------===//
//
// Phases (docs: a module moves through numbered phases, each closed by a verifier):
//
//   3 annotated   module: dist.mesh; operators with a rule: dist.strategy;
//                 arguments, results: dist.sharding
//        dist-decompose-stats      operators whose statistics a strategy cuts become primitives
//        dist-insert-reshards
//   4 resharded   every change of sharding is a dist.reshard; types still global
//        dist-localize
//   5 local       types are one rank's; reshards are dist.collective
//        dist-optimize-collectives, graph-fuse, graph-schedule
//   6 plan        compiler/emit
//
// None of these passes knows an operator by name: they ask its sharding rule
// (ShardingRuleOpInterface), its kind (GraphKinds.h) and its own localize().
//
// Example:  tessera-opt --dist-insert-reshards --dist-localize in.mlir
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_PASSES_H
#define TESSERA_COMPILER_PARTITION_PASSES_H

#include "dialects/dist/Reshard.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <memory>

namespace tessera::compiler {

/// Prices a collective on a mesh; makes the planner's choice in localisation the one that the cost
/// model priced. Empty: defaultCollectiveCost.
using CostOfMesh = std::function<dist::CollectiveCost(const dist::Mesh &)>;

std::unique_ptr<mlir::Pass> createDecomposeStatsPass();
std::unique_ptr<mlir::Pass> createInsertReshardsPass();
std::unique_ptr<mlir::Pass> createLocalizePass(CostOfMesh cost = {});
std::unique_ptr<mlir::Pass> createOptimizeCollectivesPass();
std::unique_ptr<mlir::Pass> createFusePass();
std::unique_ptr<mlir::Pass> createSchedulePass();

/// The phases' verifiers, also as passes (dist-verify-annotated, dist-verify-resharded,
/// dist-verify-local).
mlir::LogicalResult verifyAnnotated(mlir::ModuleOp module);
mlir::LogicalResult verifyResharded(mlir::ModuleOp module);
mlir::LogicalResult verifyLocal(mlir::ModuleOp module);
std::unique_ptr<mlir::Pass> createVerifyAnnotatedPass();
std::unique_ptr<mlir::Pass> createVerifyReshardedPass();
std::unique_ptr<mlir::Pass> createVerifyLocalPass();

struct PartitionOptions {
  CostOfMesh cost;
  bool fuse = true;
};
/// Phase 3 to phase 5, with the verifiers between.
void buildPartitionPipeline(mlir::OpPassManager &manager, const PartitionOptions &options = {});

/// The part of it behind localisation, for programs that are local from the start.
void buildLocalPipeline(mlir::OpPassManager &manager, bool fuse = true);

/// Adds @start, which sends every parameter and state that several ranks hold from the first of them to the others.
/// The module is in phase 5.
mlir::LogicalResult addStartProgram(mlir::ModuleOp local);

/// For tessera-opt.
void registerPartitionPasses();

} // namespace tessera::compiler

#endif
