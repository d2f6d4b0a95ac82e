// Reading parts of tensors where they lie: dialects/graph/OperandParts.h.
#include "compiler/partition/Passes.h"

#include "dialects/graph/OperandParts.h"

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_MARKPARTSPASS
#include "compiler/partition/Passes.h.inc"

namespace {

struct MarkPartsPass : impl::MarkPartsPassBase<MarkPartsPass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal())
        graph::markParts(func);
  }
};

} // namespace

} // namespace tessera::compiler
