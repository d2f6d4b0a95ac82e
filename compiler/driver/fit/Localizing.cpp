#include "compiler/driver/fit/Localizing.h"

#include "compiler/driver/Phases.h"

using namespace mlir;

namespace tessera {

llvm::Error Localizing::toMessages(const strategies::JoinOptions &join, FittedProgram &fitted) {
  if (begun_) {
    fitted.local = begun_->clone();
  } else {
    if (!run_.hybrid) {
      if (llvm::Error e = reshard(run_, *fitted.local))
        return e;
      if (llvm::Error e = run_.dump(*fitted.local, "4-resharded.mlir"))
        return e;
    }
    if (run_.pipeline) {
      if (llvm::Error e = localizeWhole(run_, *fitted.local, model_))
        return e;
      whole_ = fitted.local->clone();
      cut_ = {run_.assign.memoryLimit, false, 0};
      if (llvm::Error e = cutIntoStages(run_, *fitted.local, model_, cut_).moveInto(stages_))
        return e;
    }
    if (!join.none())
      begun_ = fitted.local->clone();
  }
  return run_.pipeline ? orderStages(run_, *fitted.local, model_, join, fitted.pipeline.emplace())
                       : llvm::Error::success();
}

llvm::Expected<bool> Localizing::cutWithin(int64_t limit) {
  OwningOpRef<ModuleOp> module(whole_->clone());
  CutMemory memory{limit, true, 0};
  llvm::Expected<compiler::OperatorStages> stages = cutIntoStages(run_, *module, model_, memory);
  if (!stages) {
    llvm::consumeError(stages.takeError()); // the same was cut before, under a larger limit
    return false;
  }
  stages_ = std::move(*stages);
  cut_ = memory;
  begun_ = std::move(module);
  return true;
}

llvm::Error Localizing::finish(const strategies::JoinOptions &join, FittedProgram &fitted) {
  if (run_.pipeline) {
    const strategies::CostModel all = costsOfAllStages(run_);
    if (llvm::Error e = finishStages(
            run_, *fitted.local,
            [&](int64_t) {
              return StageCosts{&model_, &all};
            },
            join))
      return e;
  } else if (llvm::Error e = localize(run_, *fitted.local, model_, run_.options.fuse, join)) {
    return e;
  }
  return run_.dump(*fitted.local, "5-local.mlir");
}

} // namespace tessera
