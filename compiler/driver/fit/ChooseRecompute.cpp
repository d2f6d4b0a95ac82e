// Carries out --recompute. With "auto" it chooses the recomputation that fits and is predicted to take the least time.
#include "compiler/driver/Phases.h"
#include "compiler/driver/fit/FitMemory.h"
#include "compiler/driver/fit/RecomputeTrials.h"

#include "strategies/space/FunctionAssignment.h"

#include <limits>
#include <map>
#include <utility>

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;

/// If the step takes longer than without a limit of memory by more than this factor, the limit has forced the search to
/// slower strategies, and recomputation may be faster.
static constexpr double kSqueezed = 1.005;

/// The cost of the first function without a limit of memory.
static llvm::Expected<strategies::Cost> costUnlimited(Compilation &run, ModuleOp module, AssignOptions assign) {
  OwningOpRef<ModuleOp> copy(module.clone());
  assign.memoryLimit = std::numeric_limits<int64_t>::max() / 4;
  assign.explain = false;
  assign.dumpGraph.clear();
  run.begins("strategies");
  strategies::AssignReport report;
  if (llvm::Error e = annotate(run, *copy, assign, report))
    return e;
  return report.total();
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

/// Of the pipeline, on all its places; without one, 1.
static int64_t stagesOf(const Compilation &run) {
  return run.pipeline ? run.pipeline->options.places(run.places()).stages() : 1;
}

/// `once`: what was found of it under Compilation::onlyOnce.
static llvm::Expected<FittedProgram> fitWith(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                             const Recomputed &again, FitProgram fit,
                                             std::optional<FittedProgram> once = std::nullopt) {
  if (once && int64_t(once->memory.arenaBytes) <= strategies::memoryOf(assign))
    return std::move(*once);
  OwningOpRef<ModuleOp> program; // null: `module`, of which `fit` makes copies
  if (again.level != "none") {
    program = module.clone();
    Recomputed inStages = again;
    inStages.stages = stagesOf(run);
    if (llvm::Error e = recompute(run, *program, inStages))
      return e;
  }
  llvm::Expected<FittedProgram> fitted = fit(run, program ? *program : module, assign, std::move(once));
  if (fitted)
    fitted->recompute = str(again);
  return fitted;
}

static void sayComputesAgain(const Compilation &run) {
  run.say("the plan does not fit, computing activations again instead of keeping them");
}

namespace {

/// Of a pipeline, what is found of each level at once, with the strategies that take least. To make one fit that does
/// not can take dozens of searches. What takes no less than a level that fits at once is not worth them.
class LevelsAtOnce {
public:
  LevelsAtOnce(Compilation &run, ModuleOp module, const AssignOptions &assign, FitProgram fit)
      : run_(run), module_(module), assign_(assign), fit_(fit) {}

  /// Tries levels until one fits, and returns its program. `none`: what was found of the first.
  std::optional<FittedProgram> run(std::optional<FittedProgram> none) {
    for (const char *level : kRecomputeLevels) {
      run_.onlyOnce = true;
      llvm::Expected<FittedProgram> tried =
          none ? std::move(*std::exchange(none, {})) : fitWith(run_, module_, assign_, {level, {}}, fit_);
      run_.onlyOnce = false;
      if (tried && int64_t(tried->memory.arenaBytes) <= strategies::memoryOf(assign_)) {
        fits_ = level;
        return std::move(*tried);
      }
      if (tried)
        tooLarge_.emplace(level, std::move(*tried));
      else
        llvm::handleAllErrors(
            tried.takeError(), [&](NotAtOnce &e) { tooLarge_.emplace(level, std::move(e.found)); },
            [&](DoesNotFit &e) { hopeless_.emplace(level, e.message()); },
            [](llvm::ErrorInfoBase &) {}); // tried again, and told
      if (llvm::StringRef(level) == "none")
        sayComputesAgain(run_);
    }
    return std::nullopt;
  }

  bool fits(const Recomputed &again) const { return str(again) == fits_; }
  /// Why the level fits in no way; null if that is not known.
  const std::string *hopeless(const Recomputed &again) const {
    auto it = hopeless_.find(str(again));
    return it == hopeless_.end() ? nullptr : &it->second;
  }
  /// What was found of a level that does not fit.
  std::optional<FittedProgram> take(const Recomputed &again) {
    auto it = tooLarge_.find(str(again));
    return it == tooLarge_.end() ? std::nullopt : std::optional(std::move(it->second));
  }

private:
  Compilation &run_;
  ModuleOp module_;
  const AssignOptions &assign_;
  const FitProgram fit_;
  std::string fits_;
  std::map<std::string, FittedProgram> tooLarge_; // by level
  std::map<std::string, std::string> hopeless_;   // by level
};

} // namespace

static llvm::Expected<FittedProgram> fitBest(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                             FitProgram fit, std::optional<FittedProgram> once) {
  std::optional<FittedProgram> best;
  LevelsAtOnce atOnce(run, module, assign, fit);
  const bool boundsOthers = run.pipeline && fit == fitMemory && assign.mode == "auto" && assign.user.saved.empty() &&
                            run.options.dumpPhases.empty();
  if (boundsOthers)
    best = atOnce.run(std::exchange(once, {}));
  std::string last, unplaced; // the last trial; the error of the last trial that did not fit
  RecomputeTrials trials;
  trials.run = [&](const Recomputed &again) -> llvm::Expected<bool> {
    if (best && run.stopped())
      return false; // no more trials
    last = str(again);
    if (atOnce.fits(again))
      return true;
    if (const std::string *why = atOnce.hopeless(again)) {
      unplaced = *why;
      return false;
    }
    if (boundsOthers && best)
      run.longEnoughHere = best->report.predicted();
    llvm::Expected<FittedProgram> tried = fitWith(
        run, module, assign, again, fit, again.level == "none" && once ? std::exchange(once, {}) : atOnce.take(again));
    run.longEnoughHere = strategies::kForbidden;
    if (!tried) {
      llvm::Error error = tried.takeError();
      // Whether it fits is not known; with less computed again it may be faster than the best.
      if (error.isA<NoBetter>() && boundsOthers && best && best->report.predicted() <= run.longEnough) {
        llvm::consumeError(std::move(error));
        return true;
      }
      bool isLast = !error.isA<DoesNotFit>() && !error.isA<NoBetter>();
      error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<NoBetter> e) {
        isLast = e->inAnyMemory && !best; // nor is it better if more is computed
        return llvm::Error(std::move(e));
      });
      if (isLast)
        return error;
      if (!best && unplaced.empty() && !boundsOthers)
        sayComputesAgain(run);
      unplaced = llvm::toString(std::move(error));
      return false;
    }
    if (!best || tried->report.predicted() < best->report.predicted()) // of equal trials the first one wins
      best = std::move(*tried);
    return true;
  };
  // Mode auto may have chosen slow strategies to save memory. Recomputation may then be faster.
  std::optional<strategies::Cost> unlimited;
  trials.enough = [&]() -> llvm::Expected<bool> {
    // Versions for several meshes have no cost in common that one search could tell.
    if (assign.mode != "auto" || run.hybrid || !run.ownMeshes.empty() || run.stopped())
      return true;
    if (!unlimited)
      if (llvm::Error e = costUnlimited(run, module, assign).moveInto(unlimited))
        return e;
    return double(best->report.total()) <= kSqueezed * double(*unlimited);
  };
  trials.segments = [&] {
    return compiler::segmentsByWorth(*module.getOps<func::FuncOp>().begin(), stagesOf(run), timeOnOneRank(assign));
  };
  if (llvm::Error e = tryRecomputation(trials))
    return e;
  if (!best)
    return llvm::make_error<DoesNotFit>(unplaced);
  if (!run.options.dumpPhases.empty() && last != best->recompute) // the dumps are those of the last trial
    return fitWith(run, module, assign, llvm::cantFail(parseRecomputed(best->recompute)), fit);
  return std::move(*best);
}

llvm::Expected<FittedProgram> fitWithRecompute(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                               FitProgram fit, std::optional<FittedProgram> once) {
  if (once)
    run.cutWork = once->cutWork;
  const bool isAuto = run.options.recompute == "auto";
  if (isAuto && !run.onlyOnce)
    return fitBest(run, module, assign, fit, std::move(once));
  llvm::Expected<Recomputed> again = parseRecomputed(isAuto ? "none" : run.options.recompute);
  return again ? fitWith(run, module, assign, *again, fit, std::move(once)) : again.takeError();
}

} // namespace tessera
