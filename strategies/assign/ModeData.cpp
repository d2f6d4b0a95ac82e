// Data parallelism: the batch is cut, everything that persists is whole.
#include "strategies/assign/FunctionPlan.h"

#include <numeric>

namespace tessera::strategies {

llvm::Error assignData(FunctionPlan &plan, const AssignOptions &options,
                       const SharedShardings &shared) {
  const Mesh &mesh = options.mesh;
  shardBatch(plan, mesh);
  plan.adopt(shared);
  llvm::SmallVector<int> all(plan.program.operators.size());
  std::iota(all.begin(), all.end(), 0);
  auto outside = [&](mlir::Value v) { return &plan.assignment.of(v); };
  propagate(plan.program, mesh, all, outside, plan.assignment);
  plan.finishResults();
  return llvm::Error::success();
}

} // namespace tessera::strategies
