//===- VerifyPass.h - a pass that checks and changes nothing ------------------------------------------===//
//
//   struct VerifyLocal : graph::VerifyPass<impl::VerifyLocalPassBase<VerifyLocal>, verifyLocal> {};
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_VERIFYPASS_H
#define TESSERA_DIALECTS_GRAPH_VERIFYPASS_H

#include "mlir/IR/BuiltinOps.h"

namespace tessera::graph {

/// `Base` is what TableGen made of a pass on modules; `Verify` has told what is wrong when it fails.
template <typename Base, llvm::LogicalResult (*Verify)(mlir::ModuleOp)> struct VerifyPass : Base {
  void runOnOperation() override {
    if (failed(Verify(this->getOperation())))
      this->signalPassFailure();
    this->markAllAnalysesPreserved();
  }
};

} // namespace tessera::graph

#endif
