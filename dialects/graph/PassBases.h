//===- PassBases.h - two kinds of passes --------------------------------------------------------------===//
//
//   struct VerifyLocal : graph::VerifyPass<impl::VerifyLocalPassBase<VerifyLocal>, verifyLocal> {};
//
//   struct BuildTraining : graph::FalliblePass<impl::BuildTrainingPassBase<BuildTraining>> {
//     using FalliblePass::FalliblePass;
//     llvm::Error run() override { return buildTraining(getOperation(), ...); }
//   };
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_PASSBASES_H
#define TESSERA_DIALECTS_GRAPH_PASSBASES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

namespace tessera::graph {

/// A pass that only checks. `Base` is the class that TableGen generated for a pass on modules. `Verify` emits the error
/// before it fails.
template <typename Base, llvm::LogicalResult (*Verify)(mlir::ModuleOp)> struct VerifyPass : Base {
  void runOnOperation() override {
    if (failed(Verify(this->getOperation())))
      this->signalPassFailure();
    this->markAllAnalysesPreserved();
  }
};

/// A pass whose `run` returns an llvm::Error, which becomes the error of the pass.
template <typename Base> struct FalliblePass : Base {
  using Base::Base;
  virtual llvm::Error run() = 0;

  void runOnOperation() final {
    if (llvm::Error error = run()) {
      mlir::emitError(this->getOperation().getLoc(), llvm::toString(std::move(error)));
      this->signalPassFailure();
    }
  }
};

} // namespace tessera::graph

#endif
