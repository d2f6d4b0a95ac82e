#include "compiler/partition/Passes.h"

using namespace mlir;

namespace tessera::compiler {

void buildReshardPipeline(OpPassManager &manager) {
  // First, so that the primitives of a cut softmax are resharded like every other operator.
  manager.addPass(createDecomposeStatsPass());
  // Ends phase 3. The verifier refuses cut statistics, so it runs after they are decomposed.
  manager.addPass(createVerifyAnnotatedPass());
  manager.addPass(createInsertReshardsPass());
  manager.addPass(createVerifyReshardedPass());
}

void buildLocalizePipeline(OpPassManager &manager, const PartitionOptions &options) {
  buildWholePipeline(manager, options.cost, options.sums);
  buildOrderPipeline(manager, options.fuse, options.join);
}

void buildWholePipeline(OpPassManager &manager, const CostOfMesh &cost, const dist::SumRules &sums) {
  manager.addPass(createLocalizePass(cost, sums));
  buildWrittenPipeline(manager);
}

void buildWrittenPipeline(OpPassManager &manager) {
  manager.addPass(createVerifyLocalPass());
  // Before fusion, which could put a slice into a loop before it becomes part of a reduce-scatter.
  manager.addPass(createOptimizeCollectivesPass());
}

void buildOrderPipeline(OpPassManager &manager, bool fuse, const JoinedCollectives &join) {
  // Before fusion, which would put the conversions into loops, and before messages are chosen by the time of kernels.
  manager.addPass(createNarrowProductsPass());
  // Before fusion, since its choice needs the time of every operator.
  if (join)
    manager.addPass(createJoinCollectivesPass(join));
  if (fuse) {
    manager.addPass(createFusePass());
    manager.addPass(createMarkPartsPass());
  }
  // Last, because fusion decides which values are in memory.
  manager.addPass(createSchedulePass());
  manager.addPass(createVerifyLocalPass());
}

void buildPartitionPipeline(OpPassManager &manager, const PartitionOptions &options) {
  buildReshardPipeline(manager);
  buildLocalizePipeline(manager, options);
}

void registerPartitionPipelines() {
  PassPipelineRegistration<>("dist-partition", "phase 3 to phase 5",
                             [](OpPassManager &manager) { buildPartitionPipeline(manager); });
}

} // namespace tessera::compiler
