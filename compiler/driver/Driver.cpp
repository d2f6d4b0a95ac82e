#include "compiler/driver/Driver.h"

#include "compiler/driver/FitMemory.h"
#include "compiler/driver/Phases.h"
#include "compiler/driver/ReportFile.h"

#include "runtime/plan/Recipe.h"

using namespace mlir;

namespace tessera {

/// Sets the mesh to use, and stores the meshes that were compared in `result`.
static llvm::Error chooseMesh(Compilation &run, ModuleOp module, strategies::AssignOptions &assign,
                              CompileResult &result) {
  if (run.chooseMesh) {
    if (llvm::Error e = strategies::rankMeshes(module, assign).moveInto(result.meshes))
      return e;
    assign.mesh = result.meshes.front().mesh;
    run.finished("mesh");
  }
  result.mesh = assign.mesh;
  return llvm::Error::success();
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
  if (llvm::Error e = localize(run, *copy, model, /*fuse=*/false))
    return e;
  return copy;
}

/// Writes the text files of the output's folder, which are those beside plans and weights.
static llvm::Error writeTexts(const Compilation &run, const CompileResult &result, const std::string &strategies,
                              const OutputDirectory &output) {
  const CompileOptions &options = run.options;
  if (llvm::Error e = writeFile(output.file(rt::kReportName), reportText(options, result, emitOptions(run))))
    return e;
  if (!run.hybrid)
    if (llvm::Error e = writeFile(output.file(rt::kStrategiesName), strategies))
      return e;
  if (const std::string recipe = options.recipe ? options.recipe() : ""; !recipe.empty())
    if (llvm::Error e = writeFile(output.file(rt::kRecipeName), recipe))
      return e;
  return options.saveStrategies.empty() ? llvm::Error::success() : writeFile(options.saveStrategies, strategies);
}

llvm::Expected<CompileResult> compile(const CompileOptions &options, const Progress &progress) {
  Compilation run(options, progress);
  if (llvm::Error e = run.read())
    return e;
  OutputDirectory output(options.output);
  if (llvm::Error e = output.begin())
    return e;
  llvm::Expected<compiler::ImportedModel> model = preparedModel(run);
  if (!model)
    return model.takeError();

  CompileResult result;
  result.roles = model->roles;
  result.warnings = model->warnings;
  strategies::AssignOptions assign = run.assign;
  if (llvm::Error e = chooseMesh(run, *model->module, assign, result))
    return e;
  assign.explain = true;
  llvm::Expected<FittedProgram> fitted = fitWithRecompute(run, *model->module, assign);
  if (!fitted)
    return fitted.takeError();
  result.report = std::move(fitted->report);
  result.memory = std::move(fitted->memory);
  result.recompute = std::move(fitted->recompute);
  result.numOperators = result.report.functions.empty() ? 0 : result.report.functions[0].operators.size();

  OwningOpRef<ModuleOp> whole; // null in mode hybrid
  if (!run.hybrid)
    if (llvm::Error e = sequentialProgram(run, *model->module).moveInto(whole))
      return e;
  if (llvm::Error e = emit(run, *fitted->local, whole ? *whole : ModuleOp(), model->weights, output))
    return e;
  if (llvm::Error e = writeTexts(run, result, fitted->strategies, output))
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
  llvm::Expected<compiler::ImportedModel> model = preparedModel(run);
  if (!model)
    return model.takeError();
  CompileResult result;
  result.roles = model->roles;
  result.warnings = model->warnings;
  strategies::AssignOptions assign = run.assign;
  if (llvm::Error e = chooseMesh(run, *model->module, assign, result))
    return e;
  if (llvm::Error e = annotate(run, *model->module, assign, result.report))
    return e;
  run.finished("strategies");
  if (llvm::Error e = run.dump(*model->module, "3-annotated.mlir"))
    return e;
  return result;
}

} // namespace tessera
