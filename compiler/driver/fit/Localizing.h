//===- Localizing.h - from one assignment to programs that differ in their messages ----------------===//
//
// A program that does not fit is made again with its collectives in line, and then with smaller messages. What these do
// not change is made once: reshards and, of a pipeline, the cut. Mode hybrid chooses no strategies: its program comes
// from phase 2 and has no reshards.
//
//   Localizing localizing(run, model);
//   Error e = localizing.toMessages(join, fitted);   // fitted.local: from phase 3; of a pipeline, its time is known
//   e = localizing.finish(join, fitted);             // to phase 5
//   e = localizing.toMessages(smaller, fitted);      // the same assignment again
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FIT_LOCALIZING_H
#define TESSERA_COMPILER_DRIVER_FIT_LOCALIZING_H

#include "compiler/driver/fit/CutAgain.h"
#include "compiler/driver/fit/FitMemory.h"

namespace tessera {

class Localizing {
public:
  /// `model`: with which the strategies were chosen. Both must outlive this.
  Localizing(Compilation &run, const strategies::CostModel &model) : run_(run), model_(model) {}

  /// All that comes before messages are formed. Sets `local` and `pipeline` of `fitted`, of which `local` is in phase 3
  /// the first time. After a `join` that is none() there is no other, but for another cut.
  llvm::Error toMessages(const strategies::JoinOptions &join, FittedProgram &fitted);
  llvm::Error finish(const strategies::JoinOptions &join, FittedProgram &fitted);

  /// What the cut counts.
  const CutMemory &cut() const { return cut_; }
  /// Of a pipeline: what lies where.
  const compiler::OperatorStages &stages() const { return stages_; }
  /// Cuts the same assignment of a pipeline again, after which toMessages() begins with that cut. False: there is none.
  llvm::Expected<bool> cutWithin(int64_t limit);

private:
  Compilation &run_;
  const strategies::CostModel &model_;
  CutMemory cut_;
  compiler::OperatorStages stages_;
  mlir::OwningOpRef<mlir::ModuleOp> whole_; // of a pipeline: local, and not cut
  mlir::OwningOpRef<mlir::ModuleOp> begun_; // resharded; of a pipeline, cut
};

} // namespace tessera

#endif
