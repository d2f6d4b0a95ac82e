// Phases 3 to 5: strategies, partition, and again with less memory or with recomputation until it fits.
#include "compiler/driver/Compiler.h"

#include "compiler/hybrid/Varying.h"
#include "compiler/transform/Passes.h"
#include "strategies/space/FunctionAssignment.h"

#include <limits>

namespace tessera {

/// Searches again with a smaller limit where the arena does not fit.
static constexpr int kMaxAttempts = 5;
/// From here on a strategy counts as dearer for the limit of memory's sake.
static constexpr double kSqueezed = 1.005;

llvm::Error Compiler::overLimit(const MemoryReport &memory, int64_t limit) const {
  std::string text = llvm::formatv(
      "the plan needs {0} per rank but the limit is {1} ({2}); use more ranks, a smaller "
      "batch{3}{4} "
      "or a larger "
      "--memory; what fills it: {5}",
      bytesText(int64_t(memory.arenaBytes)), bytesText(limit),
      options_.assign.memoryLimit ? "--memory" : "topology " + options_.assign.topology.name,
      options_.assign.mode == "auto" || options_.hybrid ? "" : ", --mode auto (which cuts parameters and activations)",
      options_.training && options_.recompute == "none" ? ", --recompute auto" : "", memory.str());
  return llvm::createStringError("%s", text.c_str());
}

/// The loss is a mean over the whole batch. In a program that is one rank's it is a rank's own: the sum of all
/// ranks' losses is differentiated.
llvm::Error Compiler::place(ModuleOp module, strategies::AssignOptions assign, const compiler::EmitOptions &emit,
                            CompileResult &result, Placed &placed) {
  const int64_t limit = assign.memoryLimit ? assign.memoryLimit : assign.topology.memoryPerRank(assign.mesh.numRanks());
  strategies::CostModel model(assign.mesh, assign.topology, assign.profile);
  placed.tooLarge = false;
  // The search counts tensors; the arena adds reshards' buffers and packing. Where that tips the scale the
  // search gets a smaller limit: one in proportion, then by bisection between what was too small to be met and
  // what was too large to fit.
  int64_t tooSmall = 0, asked = limit;
  for (int attempt = 0;; ++attempt) {
    placed.local = module.clone();
    ModuleOp local = *placed.local;
    llvm::Error assigned = strategies::assignStrategies(local, assign, result.report);
    result.report.memoryLimit = limit;
    if (assigned) {
      placed.tooLarge = result.report.doesNotFit;
      if (attempt == 0 || !result.report.doesNotFit)
        return assigned;
      if (attempt == kMaxAttempts) {
        llvm::consumeError(std::move(assigned));
        return overLimit(result.memory, limit);
      }
      llvm::consumeError(std::move(assigned));
      tooSmall = assign.memoryLimit;
      assign.memoryLimit = tooSmall + (asked - tooSmall) / 2;
      continue;
    }
    phase("strategies");
    if (llvm::Error e = dump(local, "3-annotated.mlir"))
      return e;
    placed.strategies = strategies::saveStrategies(local);
    if (llvm::Error e = partition(local, options_.fuse, /*dumpPhases=*/true, model))
      return e;
    phase("partition");
    if (llvm::Error e = addStart(local))
      return e;
    llvm::Expected<MemoryReport> memory = compiler::planMemory(local, emit);
    if (!memory)
      return memory.takeError();
    result.memory = std::move(*memory);
    placed.tooLarge = int64_t(result.memory.arenaBytes) > limit;
    if (!placed.tooLarge)
      return llvm::Error::success();
    bool searched = assign.mode == "auto" && assign.user.saved.empty();
    if (!searched || attempt == kMaxAttempts)
      return overLimit(result.memory, limit);
    asked = assign.memoryLimit ? assign.memoryLimit : limit;
    double excess = double(limit) / double(result.memory.arenaBytes);
    assign.memoryLimit =
        tooSmall ? tooSmall + (asked - tooSmall) / 2 : std::max<int64_t>(1, int64_t(double(asked) * excess * 0.97));
    progress_("the plan needs " + bytesText(int64_t(result.memory.arenaBytes)) +
              ", searching again for one that fits in " + bytesText(limit));
  }
}

llvm::Error Compiler::placeHybrid(ModuleOp module, const compiler::EmitOptions &emit, CompileResult &result,
                                  Placed &placed) {
  const strategies::AssignOptions &assign = options_.assign;
  if (llvm::Error e = assign.topology.fits(assign.mesh))
    return e;
  strategies::CostModel model(assign.mesh, assign.topology, assign.profile);
  AssignReport &report = result.report;
  report = AssignReport();
  report.mode = assign.mode;
  report.mesh = assign.mesh.str();
  report.topology = assign.topology.name;
  report.memoryLimit = assign.memoryLimit ? assign.memoryLimit : assign.topology.memoryPerRank(assign.mesh.numRanks());
  placed.local = module.clone();
  for (func::FuncOp func : placed.local->getOps<func::FuncOp>()) {
    const compiler::Varying varying(func, assign.mesh);
    auto priced = strategies::priceLocalFunction(func, model, [&](Value v) {
      compiler::AxisSet axes = varying.of(v);
      return axes ? "differs: " + compiler::axesText(assign.mesh, axes) : std::string("equal");
    });
    if (!priced)
      return priced.takeError();
    report.functions.push_back(std::move(*priced));
  }
  if (llvm::Error e = runPasses(*placed.local, "partition",
                                [&](PassManager &manager) { compiler::buildLocalPipeline(manager, options_.fuse); }))
    return e;
  if (llvm::Error e = dump(*placed.local, "5-local.mlir"))
    return e;
  phase("local");
  if (llvm::Error e = addStart(*placed.local))
    return e;
  llvm::Expected<MemoryReport> memory = compiler::planMemory(*placed.local, emit);
  if (!memory)
    return memory.takeError();
  result.memory = std::move(*memory);
  placed.tooLarge = int64_t(result.memory.arenaBytes) > report.memoryLimit;
  return placed.tooLarge ? overLimit(result.memory, report.memoryLimit) : llvm::Error::success();
}

llvm::Error Compiler::placeWith(const Recomputed &again, ModuleOp module, const strategies::AssignOptions &assign,
                                const compiler::EmitOptions &emit, CompileResult &result, Placed &placed) {
  OwningOpRef<ModuleOp> program(module.clone());
  if (again.level != "none")
    if (llvm::Error e = runPasses(*program, options_.model, [&](PassManager &manager) {
          manager.addNestedPass<func::FuncOp>(compiler::createRecomputePass(again.level, again.segments));
        }))
      return e;
  result.recompute = again.str();
  return options_.hybrid ? placeHybrid(*program, emit, result, placed) : place(*program, assign, emit, result, placed);
}

llvm::Error Compiler::placeBest(ModuleOp module, const strategies::AssignOptions &assign,
                                const compiler::EmitOptions &emit, CompileResult &result, Placed &placed) {
  if (options_.recompute != "auto") {
    llvm::Expected<Recomputed> again = Recomputed::parse(options_.recompute);
    return again ? placeWith(*again, module, assign, emit, result, placed) : again.takeError();
  }
  // What fits and is predicted to take least; of equal ones the first that was tried.
  struct Candidate {
    CompileResult result;
    Placed placed;
  };
  std::optional<Candidate> best;
  std::string last, unplaced; // what was tried last; why the last that did not fit did not
  auto predicted = [](const CompileResult &r) {
    return r.report.functions.empty() ? 0 : r.report.functions.front().total();
  };
  RecomputeTrials trials;
  trials.run = [&](const Recomputed &again) -> llvm::Expected<bool> {
    Candidate tried{result, {}};
    last = again.str();
    if (llvm::Error e = placeWith(again, module, assign, emit, tried.result, tried.placed)) {
      if (!tried.placed.tooLarge)
        return e;
      if (!best && unplaced.empty())
        progress_("the plan does not fit, computing activations again instead of keeping them");
      unplaced = llvm::toString(std::move(e));
      return false;
    }
    if (!best || predicted(tried.result) < predicted(best->result))
      best = std::move(tried);
    return true;
  };
  // A strategy that mode auto chose to save memory may cost more than computing something again.
  std::optional<strategies::Cost> unlimited;
  trials.enough = [&]() -> llvm::Expected<bool> {
    if (assign.mode != "auto" || options_.hybrid)
      return true;
    if (!unlimited)
      if (llvm::Error e = predictUnlimited(module, assign).moveInto(unlimited))
        return e;
    return double(predicted(best->result)) <= kSqueezed * double(*unlimited);
  };
  trials.segments = [&] {
    return compiler::segmentsByWorth(*module.getOps<func::FuncOp>().begin(), timeOnOneRank(assign));
  };
  if (llvm::Error e = tryRecomputation(trials))
    return e;
  if (!best)
    return llvm::createStringError(unplaced);
  if (!options_.dumpPhases.empty() && last != best->result.recompute) // dumps are of the last one
    return placeWith(llvm::cantFail(Recomputed::parse(best->result.recompute)), module, assign, emit, result, placed);
  result = std::move(best->result);
  placed = std::move(best->placed);
  return llvm::Error::success();
}

llvm::Expected<strategies::Cost> Compiler::predictUnlimited(ModuleOp module, strategies::AssignOptions assign) {
  OwningOpRef<ModuleOp> copy(module.clone());
  assign.memoryLimit = std::numeric_limits<int64_t>::max() / 4;
  assign.explain = false;
  assign.dumpGraph.clear();
  AssignReport report;
  if (llvm::Error e = strategies::assignStrategies(*copy, assign, report))
    return e;
  return report.functions.empty() ? strategies::Cost(0) : report.functions.front().total();
}

std::function<double(Operation *)> Compiler::timeOnOneRank(const strategies::AssignOptions &assign) const {
  auto model =
      std::make_shared<strategies::CostModel>(llvm::cantFail(dist::Mesh::parse("1")), assign.topology, assign.profile);
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

} // namespace tessera
