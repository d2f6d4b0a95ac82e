//===- Passes.h - from an annotated program to one rank's program -----------------------------===//
//
// A module moves through numbered phases (docs/ARCHITECTURE.md). Each phase ends with its verifier:
//
//   3 annotated   module: dist.mesh; operators with a rule: dist.strategy;
//                 arguments, results: dist.sharding
//        dist-decompose-stats      operators whose statistics a strategy cuts become primitives
//        dist-insert-reshards
//   4 resharded   every change of sharding is a dist.reshard; types still global
//        dist-localize
//   5 local       types are one rank's; reshards are dist.collective
//        dist-optimize-collectives, graph-narrow-products, dist-join-collectives, graph-fuse,
//        graph-mark-parts, graph-schedule
//   6 plan        compiler/emit
//
// None of these passes names an operator. They use its sharding rule (ShardingRuleOpInterface), its kind (GraphKinds.h)
// and its method localize(). Passes.td describes each pass.
//
// Example:  tessera-opt --dist-insert-reshards --dist-localize in.mlir
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_PASSES_H
#define TESSERA_COMPILER_PARTITION_PASSES_H

#include "dialects/dist/wire/WirePlanner.h"
#include "dialects/graph/flow/Messages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <memory>

namespace tessera::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/partition/Passes.h.inc"

/// The cost of collectives on a mesh. With the function of the cost model, the planner chooses in localisation the same
/// collectives that the search has priced. Empty: defaultCollectiveCost.
using CostOfMesh = std::function<dist::CollectiveCost(const dist::Mesh &)>;

/// `sums`: how sums are sent.
std::unique_ptr<mlir::Pass> createLocalizePass(CostOfMesh cost, dist::SumRules sums = {});

/// Which collectives of a local function are sent as one message, and which run beside kernels.
using JoinedCollectives = std::function<llvm::Expected<graph::SentCollectives>(mlir::func::FuncOp)>;

std::unique_ptr<mlir::Pass> createJoinCollectivesPass(JoinedCollectives joined);

struct PartitionOptions {
  CostOfMesh cost;
  bool fuse = true;
  JoinedCollectives join = nullptr; // empty: every collective is sent alone, in line
  dist::SumRules sums = {};
};
/// The passes from phase 3 to phase 4, from phase 4 to phase 5, and both, with the verifiers of these phases.
void buildReshardPipeline(mlir::OpPassManager &manager);
void buildLocalizePipeline(mlir::OpPassManager &manager, const PartitionOptions &options = {});
/// The parts of buildLocalizePipeline. Between the two a pipeline is cut into stages; the second runs on each of them.
void buildWholePipeline(mlir::OpPassManager &manager, const CostOfMesh &cost, const dist::SumRules &sums = {});
void buildOrderPipeline(mlir::OpPassManager &manager, bool fuse, const JoinedCollectives &join);
/// The first part for a program that is local from the start (mode hybrid).
void buildWrittenPipeline(mlir::OpPassManager &manager);
void buildPartitionPipeline(mlir::OpPassManager &manager, const PartitionOptions &options = {});

/// Registers the pipelines for tessera-opt.
void registerPartitionPipelines();

} // namespace tessera::compiler

#endif
