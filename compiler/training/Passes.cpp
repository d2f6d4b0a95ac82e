#include "compiler/training/Passes.h"

#include "compiler/training/Training.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/PassBases.h"

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_BUILDTRAININGPASS
#include "compiler/training/Passes.h.inc"

llvm::Expected<TrainingOptions> parseTraining(const BuildTrainingPassOptions &from) {
  TrainingOptions to;
  if (llvm::Error error = parseLoss(from.loss).moveInto(to.loss))
    return error;
  if (llvm::Error error = parseOptimizer(from.optimizer).moveInto(to.optimizer))
    return error;
  if (llvm::Error error = parseLearningRate(from.schedule).moveInto(to.schedule))
    return error;
  if (llvm::Error error = parseAuxOutputs(from.auxOutputs).moveInto(to.auxOutputs))
    return error;
  if (!from.lossScale.empty())
    if (llvm::Error error = parseLossScale(from.lossScale).moveInto(to.lossScale))
      return error;
  if (from.clipNorm > 0)
    to.clipNorm = from.clipNorm;
  if (!from.compress.empty())
    if (llvm::Error error = dist::Wire::parse(from.compress).moveInto(to.compress))
      return llvm::createStringError("--compress " + llvm::toString(std::move(error)));
  to.accumulate = from.accumulate;
  to.gradientScale = from.gradientScale;
  to.perRank = from.perRank;
  return to;
}

namespace {

struct BuildTraining : graph::FalliblePass<impl::BuildTrainingPassBase<BuildTraining>> {
  using FalliblePass::FalliblePass;

  llvm::Error run() override {
    auto training = parseTraining({.loss = loss,
                                   .optimizer = optimizer,
                                   .schedule = schedule,
                                   .clipNorm = clipNorm,
                                   .lossScale = lossScale,
                                   .auxOutputs = auxOutputs,
                                   .compress = compress,
                                   .accumulate = accumulate,
                                   .gradientScale = gradientScale,
                                   .perRank = perRank});
    return training ? buildTraining(getOperation(), *training) : training.takeError();
  }
};

} // namespace

} // namespace tessera::compiler
