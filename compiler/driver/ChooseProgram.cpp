#include "compiler/driver/ChooseProgram.h"

#include "compiler/driver/Phases.h"
#include "compiler/driver/stages/ChooseStages.h"
#include "compiler/driver/stages/OwnMeshes.h"

#include "dialects/graph/Graph.h"
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
    assign.known = std::move(result.meshes.front().known);
    // The mesh may be searched again. After an interrupt it is worth what it was worth before.
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
  if (run.hybrid || run.assign.mode != "data" || run.assign.user.isSaved())
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

llvm::Expected<FittedProgram> chooseProgram(Compilation &run, bool explain, FitProgram fit,
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
  assign.explain = explain;
  if (llvm::Error e = chooseMesh(run, *model.module, assign, result))
    return e;
  sayHowBatchIsCut(run, *model.module, assign.mesh, result);
  assign.prices = strategies::pricesOf(assign);
  llvm::Expected<FittedProgram> fitted =
      chosen ? std::move(chosen->fitted)
             : fitWithRecompute(run, *model.module, assign, run.ownMeshes.empty() ? fit : fitOwnMeshes);
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
  const strategies::FunctionReport *step = result.report.step();
  result.numOperators = step ? step->operators.size() : 0;
  return fitted;
}

} // namespace tessera
