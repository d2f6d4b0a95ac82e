//===- Passes.cpp --------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace tessera::compiler {

void registerTransformPasses() {
  registerPass([] { return createDecomposeNormsPass(); });
  registerPass([] { return createFuseAttentionPass(); });
  registerPass([] { return createIndexLimitsPass(); });
  registerPass([] { return createLowerPrecisionPass("bf16"); });
  registerPass([] { return createRecomputePass("full"); });
  registerPass([] { return createSimplifyPass(); });
}

} // namespace tessera::compiler
