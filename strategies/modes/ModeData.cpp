// Data parallelism: the batch is cut, and parameters and states are whole.
#include "strategies/modes/Modes.h"
#include "strategies/space/FunctionAssignment.h"

#include <numeric>

namespace tessera::strategies {

llvm::Error assignData(FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared) {
  const Mesh &mesh = options.mesh;
  shardBatch(function, mesh);
  function.adopt(shared);
  llvm::SmallVector<int> all(function.program.operators.size());
  std::iota(all.begin(), all.end(), 0);
  auto outside = [&](mlir::Value v) { return &function.assignment.of(v); };
  propagate(function.program, mesh, all, outside, function.assignment);
  function.finishResults();
  return llvm::Error::success();
}

} // namespace tessera::strategies
