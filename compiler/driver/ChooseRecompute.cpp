// What --recompute asks for, and what of it fits and is predicted to take least.
#include "compiler/driver/FitMemory.h"
#include "compiler/driver/Phases.h"
#include "compiler/driver/RecomputeTrials.h"

#include "strategies/space/FunctionAssignment.h"

#include <limits>

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;

/// From here on a strategy counts as dearer for the limit of memory's sake.
static constexpr double kSqueezed = 1.005;

static strategies::Cost predicted(const strategies::AssignReport &report) {
  return report.functions.empty() ? strategies::Cost(0) : report.functions.front().total();
}

/// Of the first function, were there no limit of memory.
static llvm::Expected<strategies::Cost> predictUnlimited(Compilation &run, ModuleOp module, AssignOptions assign) {
  OwningOpRef<ModuleOp> copy(module.clone());
  assign.memoryLimit = std::numeric_limits<int64_t>::max() / 4;
  assign.explain = false;
  assign.dumpGraph.clear();
  strategies::AssignReport report;
  if (llvm::Error e = annotate(run, *copy, assign, report))
    return e;
  return predicted(report);
}

static std::function<double(Operation *)> timeOnOneRank(const AssignOptions &assign) {
  auto model = std::make_shared<strategies::CostModel>(dist::Mesh(), assign.topology, assign.profile);
  return [model](Operation *op) {
    auto cls = strategies::OperatorClass::of(op);
    if (!cls) {
      llvm::consumeError(cls.takeError());
      return 0.0;
    }
    strategies::Strategy whole;
    whole.factors.resize((*cls)->rule.factors.size());
    return double(model->compute(**cls, whole));
  };
}

static llvm::Expected<FittedProgram> fitWith(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                             const Recomputed &again) {
  OwningOpRef<ModuleOp> program(module.clone());
  if (llvm::Error e = recompute(run, *program, again))
    return e;
  llvm::Expected<FittedProgram> fitted = fitMemory(run, *program, assign);
  if (fitted)
    fitted->recompute = str(again);
  return fitted;
}

static llvm::Expected<FittedProgram> fitBest(Compilation &run, ModuleOp module, const AssignOptions &assign) {
  std::optional<FittedProgram> best;
  std::string last, unplaced; // what was tried last; why the last that did not fit did not
  RecomputeTrials trials;
  trials.run = [&](const Recomputed &again) -> llvm::Expected<bool> {
    last = str(again);
    llvm::Expected<FittedProgram> tried = fitWith(run, module, assign, again);
    if (!tried) {
      if (!tried.errorIsA<DoesNotFit>())
        return tried.takeError();
      if (!best && unplaced.empty())
        run.say("the plan does not fit, computing activations again instead of keeping them");
      unplaced = llvm::toString(tried.takeError());
      return false;
    }
    if (!best || predicted(tried->report) < predicted(best->report)) // of equal ones the first that was tried
      best = std::move(*tried);
    return true;
  };
  // A strategy that mode auto chose to save memory may cost more than computing something again.
  std::optional<strategies::Cost> unlimited;
  trials.enough = [&]() -> llvm::Expected<bool> {
    if (assign.mode != "auto" || run.hybrid)
      return true;
    if (!unlimited)
      if (llvm::Error e = predictUnlimited(run, module, assign).moveInto(unlimited))
        return e;
    return double(predicted(best->report)) <= kSqueezed * double(*unlimited);
  };
  trials.segments = [&] {
    return compiler::segmentsByWorth(*module.getOps<func::FuncOp>().begin(), timeOnOneRank(assign));
  };
  if (llvm::Error e = tryRecomputation(trials))
    return e;
  if (!best)
    return llvm::createStringError(unplaced);
  if (!run.options.dumpPhases.empty() && last != best->recompute) // dumps are of the last one
    return fitWith(run, module, assign, llvm::cantFail(parseRecomputed(best->recompute)));
  return std::move(*best);
}

llvm::Expected<FittedProgram> fitWithRecompute(Compilation &run, ModuleOp module, const AssignOptions &assign) {
  if (run.options.recompute == "auto")
    return fitBest(run, module, assign);
  llvm::Expected<Recomputed> again = parseRecomputed(run.options.recompute);
  return again ? fitWith(run, module, assign, *again) : again.takeError();
}

} // namespace tessera
