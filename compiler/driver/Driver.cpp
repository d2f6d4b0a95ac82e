#include "compiler/driver/Driver.h"

#include "compiler/driver/FitMemory.h"
#include "compiler/driver/Phases.h"
#include "compiler/driver/stages/ChooseStages.h"

#include "dialects/graph/Graph.h"
#include "runtime/plan/Recipe.h"
#include "runtime/support/Printable.h"
#include "strategies/space/FunctionAssignment.h"

using namespace mlir;

namespace tessera {

/// Sets the mesh to use, and stores the meshes that were compared in `result`.
static llvm::Error chooseMesh(Compilation &run, ModuleOp module, strategies::AssignOptions &assign,
                              CompileResult &result) {
  if (run.chooseMesh) {
    run.begins("mesh");
    if (llvm::Error e = strategies::rankMeshes(module, assign).moveInto(result.meshes))
      return e;
    assign.mesh = result.meshes.front().mesh;
    assign.prices = std::move(result.meshes.front().prices);
    // The mesh is searched again. After an interrupt it is worth what it was worth before.
    if (const double before = result.meshes.front().work; run.stopped()) {
      const double most = assign.searchWork;
      run.hurry(assign);
      assign.searchWork = std::min(most, std::max(assign.searchWork, before));
    }
    run.finished("mesh");
  }
  result.mesh = assign.mesh;
  return llvm::Error::success();
}

/// What mode data does with a batch that the ranks do not divide.
static void sayHowBatchIsCut(Compilation &run, ModuleOp module, const dist::Mesh &mesh, CompileResult &result) {
  if (run.hybrid || run.assign.mode != "data" || !run.assign.user.saved.empty())
    return;
  auto func = *module.getOps<func::FuncOp>().begin();
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[i]);
    if (graph::argRole(func, i) != graph::kInput || !type || type.getRank() == 0)
      continue;
    const int64_t batch = type.getDimSize(0), ranks = mesh.numRanks();
    const int64_t parts = mesh.size(strategies::batchAxes(mesh, batch));
    const std::string name = rt::printable(graph::argName(func, i).str());
    auto text = [](int64_t n) { return std::to_string(n); };
    if (parts < ranks) {
      result.warnings.push_back("mode data cuts the batch of " + text(batch) + " ('" + name + "') in " + text(parts) +
                                " parts, not in " + text(ranks) + ": groups of " + text(ranks / parts) +
                                " ranks compute the same; use a batch that " + text(ranks) +
                                " divides, another mesh or --mode auto");
      run.say("warning: " + result.warnings.back());
    } else if (batch % parts != 0) {
      run.say("mode data pads the batch of " + text(batch) + " ('" + name + "') to " + text(parts) + " blocks of " +
              text((batch + parts - 1) / parts));
    }
    return; // the other inputs are cut alike
  }
}

/// The unpartitioned program, without fusion. `tessera-run --verify` compares the plan with it.
static llvm::Expected<OwningOpRef<ModuleOp>> sequentialProgram(Compilation &run, ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  strategies::AssignOptions assign;
  assign.topology = run.assign.topology;
  assign.topology.axes.clear(); // there are none
  strategies::AssignReport report;
  const strategies::CostModel model(assign.mesh, assign.topology);
  if (llvm::Error e = annotate(run, *copy, assign, report))
    return e;
  if (llvm::Error e = reshard(run, *copy))
    return e;
  if (llvm::Error e = localize(run, *copy, model, /*fuse=*/false, {}))
    return e;
  return copy;
}

/// Writes the text files of the output's folder, which are those beside plans and weights.
static llvm::Error writeTexts(const Compilation &run, const CompileResult &result, const std::string &strategies,
                              const OutputDirectory &output) {
  const CompileOptions &options = run.options;
  if (llvm::Error e = writeFile(output.file(rt::kReportName), resultJson(options, result)))
    return e;
  if (!run.hybrid)
    if (llvm::Error e = writeFile(output.file(rt::kStrategiesName), strategies))
      return e;
  if (const std::string recipe = options.recipe ? options.recipe() : ""; !recipe.empty())
    if (llvm::Error e = writeFile(output.file(rt::kRecipeName), recipe))
      return e;
  return options.saveStrategies.empty() ? llvm::Error::success() : writeFile(options.saveStrategies, strategies);
}

/// From options to the program that fits, with everything that the result tells of it. `model` gets phase 2.
static llvm::Expected<FittedProgram> chooseProgram(Compilation &run, bool explain, FitProgram fit,
                                                   compiler::ImportedModel &model, CompileResult &result) {
  std::optional<ChosenStages> chosen;
  if (run.chooseStages)
    if (llvm::Error e = chooseStages(run, explain).moveInto(chosen))
      return e;
  if (llvm::Error e = preparedModel(run).moveInto(model))
    return e;
  result.roles = model.roles;
  result.warnings = model.warnings;
  strategies::AssignOptions assign = run.assign;
  if (llvm::Error e = chooseMesh(run, *model.module, assign, result))
    return e;
  sayHowBatchIsCut(run, *model.module, assign.mesh, result);
  assign.prices = strategies::pricesOf(assign);
  assign.explain = explain;
  llvm::Expected<FittedProgram> fitted =
      chosen ? std::move(chosen->fitted) : fitWithRecompute(run, *model.module, assign, fit);
  if (!fitted)
    return fitted;
  if (chosen)
    result.stages = std::move(chosen->compared);
  result.report = std::move(fitted->report);
  result.pipeline = std::move(fitted->pipeline);
  if (run.pipeline)
    result.mesh = run.pipeline->mesh;
  result.memory = std::move(fitted->memory);
  result.times = std::move(fitted->times);
  result.recompute = std::move(fitted->recompute);
  result.numOperators = result.report.functions.empty() ? 0 : result.report.functions[0].operators.size();
  return fitted;
}

llvm::Expected<CompileResult> compile(const CompileOptions &options, const Progress &progress) {
  Compilation run(options, progress);
  if (llvm::Error e = run.read())
    return e;
  OutputDirectory output(options.output);
  if (llvm::Error e = output.begin())
    return e;
  compiler::ImportedModel model;
  CompileResult result;
  llvm::Expected<FittedProgram> fitted = chooseProgram(run, /*explain=*/true, fitMemory, model, result);
  if (!fitted)
    return fitted.takeError();

  OwningOpRef<ModuleOp> whole; // null in mode hybrid
  if (!run.hybrid)
    if (llvm::Error e = sequentialProgram(run, *model.module).moveInto(whole))
      return e;
  if (options.whatIf)
    if (llvm::Error e = predictWhatIf(options, *options.whatIf, progress).moveInto(result.whatIf))
      return e;
  run.begins("emit");
  if (llvm::Error e = emit(run, *fitted->local, whole ? *whole : ModuleOp(), model.weights, output))
    return e;
  if (llvm::Error e = writeTexts(run, result, fitted->strategies, output))
    return e;
  if (options.finish)
    if (llvm::Error e = options.finish(output.path()))
      return e;
  if (llvm::Error e = output.commit())
    return e;
  run.finished("emit");
  return result;
}

llvm::Expected<CompileResult> searchOnly(const CompileOptions &options, const Progress &progress) {
  Compilation run(options, progress);
  if (llvm::Error e = run.read("--search-only"))
    return e;
  compiler::ImportedModel model;
  CompileResult result;
  // Stages are known when the local program is cut.
  llvm::Expected<FittedProgram> chosen =
      chooseProgram(run, /*explain=*/false, run.pipeline ? fitMemory : chooseOnly, model, result);
  if (!chosen)
    return chosen.takeError();
  if (!options.saveStrategies.empty())
    if (llvm::Error e = writeFile(options.saveStrategies, chosen->strategies))
      return e;
  return result;
}

} // namespace tessera
