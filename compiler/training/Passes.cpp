//===- Passes.cpp --------------------------------------------------------------------------------===//
#include "compiler/training/Passes.h"

#include "compiler/training/Training.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace tessera::compiler {

namespace {

struct BuildTrainingPass : PassWrapper<BuildTrainingPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BuildTrainingPass)
  BuildTrainingPass() = default;
  BuildTrainingPass(const BuildTrainingPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "graph-build-training"; }
  StringRef getDescription() const override {
    return "builds @train and @eval from @forward and @infer: loss, gradients, optimizer";
  }
  Option<std::string> loss{*this, "loss", llvm::cl::desc("NAME:key=value,..."), llvm::cl::init("cross_entropy")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::desc("NAME:key=value,..."), llvm::cl::init("sgd:lr=0.1")};
  Option<std::string> schedule{*this, "schedule", llvm::cl::desc("NAME:key=value,..."), llvm::cl::init("constant")};
  Option<double> clipNorm{*this, "clip-norm", llvm::cl::desc("limit of the global gradient norm"), llvm::cl::init(0)};
  Option<int64_t> accumulate{*this, "accumulate", llvm::cl::desc("micro-batches per step"), llvm::cl::init(1)};
  Option<std::string> aux{*this, "aux", llvm::cl::desc("OUTPUT=COEFFICIENT,..."), llvm::cl::init("")};

  llvm::Error run() {
    TrainingOptions options;
    if (llvm::Error error = parseLoss(loss).moveInto(options.loss))
      return error;
    if (llvm::Error error = parseOptimizer(optimizer).moveInto(options.optimizer))
      return error;
    if (llvm::Error error = parseSchedule(schedule).moveInto(options.schedule))
      return error;
    if (llvm::Error error = parseAuxOutputs(aux).moveInto(options.auxOutputs))
      return error;
    if (clipNorm > 0)
      options.clipNorm = clipNorm;
    options.accumulate = accumulate;
    return buildTraining(getOperation(), options);
  }
  void runOnOperation() override {
    if (llvm::Error error = run()) {
      getOperation().emitError(llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }
};

} // namespace

void registerTrainingPasses() { PassRegistration<BuildTrainingPass>(); }

} // namespace tessera::compiler
