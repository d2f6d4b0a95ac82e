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
// (ShardingRuleOpInterface), its kind (GraphKinds.h) and its own localize(). Passes.td describes each.
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

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/partition/Passes.h.inc"

/// Prices a collective on a mesh; makes the planner's choice in localisation the one that the cost
/// model priced. Empty: defaultCollectiveCost.
using CostOfMesh = std::function<dist::CollectiveCost(const dist::Mesh &)>;

std::unique_ptr<mlir::Pass> createLocalizePass(CostOfMesh cost);

struct PartitionOptions {
  CostOfMesh cost;
  bool fuse = true;
};
/// Phase 3 to phase 4, phase 4 to phase 5, and both; with the verifiers between.
void buildReshardPipeline(mlir::OpPassManager &manager);
void buildLocalizePipeline(mlir::OpPassManager &manager, const PartitionOptions &options = {});
void buildPartitionPipeline(mlir::OpPassManager &manager, const PartitionOptions &options = {});

/// What follows localisation, for programs that are local from the start.
void buildLocalPipeline(mlir::OpPassManager &manager, bool fuse = true);

/// For tessera-opt.
void registerPartitionPipelines();

} // namespace tessera::compiler

#endif
