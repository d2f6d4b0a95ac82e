#include "compiler/partition/Passes.h"

using namespace mlir;

namespace tessera::compiler {

void buildReshardPipeline(OpPassManager &manager) {
  // First: the primitives of a cut softmax are resharded like every other operator.
  manager.addPass(createDecomposeStatsPass());
  // Closes phase 3. Only from here on has every operator its operands' statistics to itself.
  manager.addPass(createVerifyAnnotatedPass());
  manager.addPass(createInsertReshardsPass());
  manager.addPass(createVerifyReshardedPass());
}

void buildLocalizePipeline(OpPassManager &manager, const PartitionOptions &options) {
  manager.addPass(createLocalizePass(options.cost));
  buildLocalPipeline(manager, options.fuse);
}

void buildLocalPipeline(OpPassManager &manager, bool fuse) {
  manager.addPass(createVerifyLocalPass());
  // Before fusion: a slice that becomes part of a reduce-scatter would else be in a loop nest.
  manager.addPass(createOptimizeCollectivesPass());
  if (fuse)
    manager.addPass(createFusePass());
  // Last: what is live depends on what fusion keeps out of memory.
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
