#include "compiler/driver/Driver.h"

#include "compiler/driver/ChooseProgram.h"
#include "compiler/driver/Phases.h"

#include "runtime/plan/Recipe.h"

using namespace mlir;

namespace tessera {

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
  if (!strategies.empty())
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
