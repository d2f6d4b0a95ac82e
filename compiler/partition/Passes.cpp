#include "compiler/partition/Passes.h"

using namespace mlir;

namespace tessera::compiler {

void buildPartitionPipeline(OpPassManager &manager, const PartitionOptions &options) {
  manager.addPass(createDecomposeStatsPass());
  manager.addPass(createVerifyAnnotatedPass());
  manager.addPass(createInsertReshardsPass());
  manager.addPass(createVerifyReshardedPass());
  manager.addPass(createLocalizePass(options.cost));
  buildLocalPipeline(manager, options.fuse);
}

void buildLocalPipeline(OpPassManager &manager, bool fuse) {
  manager.addPass(createVerifyLocalPass());
  manager.addPass(createOptimizeCollectivesPass());
  if (fuse)
    manager.addPass(createFusePass());
  manager.addPass(createSchedulePass());
  manager.addPass(createVerifyLocalPass());
}

void registerPartitionPasses() {
  registerPass([] { return createDecomposeStatsPass(); });
  registerPass([] { return createInsertReshardsPass(); });
  registerPass([] { return createLocalizePass(); });
  registerPass([] { return createOptimizeCollectivesPass(); });
  registerPass([] { return createFusePass(); });
  registerPass([] { return createSchedulePass(); });
  registerPass([] { return createVerifyAnnotatedPass(); });
  registerPass([] { return createVerifyReshardedPass(); });
  registerPass([] { return createVerifyLocalPass(); });
  PassPipelineRegistration<>("dist-partition", "phase 3 to phase 5",
                             [](OpPassManager &manager) { buildPartitionPipeline(manager); });
}

} // namespace tessera::compiler
