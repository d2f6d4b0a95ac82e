#include "compiler/driver/Phases.h"

#include "compiler/driver/fit/CutAgain.h"

#include "compiler/hybrid/Passes.h"
#include "compiler/partition/Passes.h"
#include "compiler/pipeline/Passes.h"
#include "dialects/dist/DistOps.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "runtime/support/Version.h"
#include "strategies/cost/LocalCost.h"
#include "strategies/modes/Modes.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace tessera {

/// The most bytes of initial values that are stored with the plan. More are generated when a run starts.
static constexpr uint64_t kMaxStoredInit = uint64_t(1) << 30;

// ---- 1 ----

llvm::Expected<compiler::ImportedModel> importModel(Compilation &run) {
  compiler::ImportOptions options = run.import;
  if (run.hybrid) {
    const compiler::HybridOptions &hybrid = *run.hybrid;
    compiler::ImportOptions::PerRank perRank;
    perRank.mesh = hybrid.mesh;
    perRank.wholeShape = [&](llvm::StringRef name, llvm::ArrayRef<int64_t> local) -> llvm::Expected<compiler::Shape> {
      auto sharding = hybrid.parameter(name, local);
      if (!sharding)
        return sharding.takeError();
      return compiler::wholeShape(hybrid.mesh, *sharding, local);
    };
    options.perRank = std::move(perRank);
  }
  llvm::Expected<compiler::ImportedModel> model = compiler::importOnnx(run.context, run.options.model, options);
  if (!model)
    return model;
  if (llvm::Error e = run.passes(run.options.model, *model->module,
                                 [](PassManager &passes) { passes.addPass(compiler::createVerifyImportedPass()); }))
    return e;
  return model;
}

// ---- 2 ----

/// The factor on the gradients of the loss that gives the mean or the sum of --gradient-reduction.
///
/// The loss is a mean over the whole batch. In mode hybrid every rank has a loss of its own, and the sum of all ranks'
/// losses is differentiated.
static llvm::Expected<double> gradientScale(const Compilation &run, ModuleOp module) {
  const dist::Mesh &mesh = run.assign.mesh;
  const bool sum = run.options.gradientReduction == "sum";
  if (run.hybrid)
    return double(sum ? mesh.size(run.hybrid->batch) : 1) / double(mesh.numRanks());
  if (!sum)
    return 1.0;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[i]);
          graph::argRole(func, i) == graph::kInput && type.getRank() > 0)
        return double(mesh.size(strategies::batchAxes(mesh, type.getDimSize(0) * run.training.accumulate)));
  return llvm::createStringError("--gradient-reduction sum: the model has no input with a batch");
}

/// The operators that the user's strategies name. They must not be fused, because strategies are chosen later. Nor must
/// those whose own names were given a stage; where a pattern names all parts, what they are fused to has one of the
/// names.
static compiler::FuseAttentionPassOptions namedByUser(const Compilation &run, ModuleOp module) {
  compiler::FuseAttentionPassOptions options;
  module.walk([&](Operation *op) {
    const std::string name = graph::nameOf(op);
    if (llvm::any_of(run.assign.user.entries,
                     [&](const strategies::UserEntry &entry) { return strategies::matchesName(entry.op, name); }) ||
        llvm::any_of(run.assign.user.stages, [&](const strategies::UserStage &entry) { return entry.op == name; }))
      options.keep.push_back(name);
  });
  return options;
}

llvm::Error buildPrograms(Compilation &run, ModuleOp module) {
  compiler::BuildTrainingPassOptions training = run.training;
  if (run.options.train)
    if (llvm::Error e = gradientScale(run, module).moveInto(training.gradientScale))
      return e;
  return run.passes("", module, [&](PassManager &passes) {
    auto add = [&](std::unique_ptr<Pass> pass) { passes.addNestedPass<func::FuncOp>(std::move(pass)); };
    // Before training, because gradients read the scores. Not in mode hybrid, where the program stays as it was
    // written.
    if (run.options.fuseAttention && !run.hybrid)
      add(compiler::createFuseAttentionPass(namedByUser(run, module)));
    // Before training, because the borders that they are read of are of the forward pass alone.
    if (run.hybrid)
      passes.addPass(compiler::createReadStagesPass(
          {.stages = run.pipeline ? run.pipeline->options.places(run.places()).stages() : 0}));
    // Before training, because the cut of a parameter decides over which ranks its gradient is summed.
    if (run.hybrid)
      passes.addPass(compiler::createHybridAnnotatePass(*run.hybrid));
    if (run.options.train)
      passes.addPass(compiler::createBuildTrainingPass(training));
    // After training, because it combines the results of training over all ranks.
    if (run.hybrid)
      passes.addPass(compiler::createHybridCompletePass(*run.hybrid));
    // After training, because gradients of slices are such sums.
    add(compiler::createJoinPadsPass());
    // After training, so that gradients are lowered, too. Before norms are decomposed, because their statistics stay in
    // float32.
    if (run.options.precision != "f32")
      add(compiler::createLowerPrecisionPass({.type = run.options.precision, .products = run.options.products}));
    // After training, because the gradient of a whole norm has a shorter formula than that of its parts.
    add(compiler::createDecomposeNormsPass());
    // After the passes that make operators: merges equal ones and removes unused ones.
    add(compiler::createSimplifyPass());
    // After simplification, so that it sees the loops that will run; without loops there is nothing to gain. Stages do it
    // once the network is cut (cutPlaced).
    if (run.options.fuse && !run.pipeline)
      add(compiler::createRepeatPass());
    // After these, which decide what memory holds. Not in reproducible programs: there every number in a
    // loop is rounded, and the bits must not depend on how a kernel rounds a sum that ranks may have to add first.
    if (run.options.precision != "f32" && run.options.leaves == 0)
      add(compiler::createRoundProductsPass());
    // Last, so that it sees the operators that will run.
    add(compiler::createIndexLimitsPass());
    passes.addPass(compiler::createVerifyTrainingPass());
  });
}

llvm::Error recompute(Compilation &run, ModuleOp module, const compiler::RecomputePassOptions &again) {
  return run.passes(run.options.model, module, [&](PassManager &passes) {
    passes.addNestedPass<func::FuncOp>(compiler::createRecomputePass(again));
  });
}

llvm::Error expireCopies(Compilation &run, ModuleOp module, bool activations) {
  return run.passes(run.options.model, module, [&](PassManager &passes) {
    passes.addNestedPass<func::FuncOp>(compiler::createExpireCopiesPass({.activations = activations}));
  });
}

// ---- both ----

/// Marks parameters that @train does not update, although they are not frozen, as unused.
static void tellUnused(ModuleOp module, std::vector<compiler::TensorRole> &roles) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!train)
    return;
  llvm::StringSet<> updated;
  for (unsigned i = 0; i < train.getNumArguments(); ++i)
    if (graph::updateOf(train, i))
      updated.insert(graph::argName(train, i));
  for (compiler::TensorRole &role : roles)
    if (role.role == "trained" && !updated.contains(role.name)) {
      role.role = "unused";
      role.reason += "; the loss does not depend on it";
    }
}

/// Phase 2 of an imported model.
static llvm::Error train(Compilation &run, compiler::ImportedModel &model) {
  if (llvm::Error e = buildPrograms(run, *model.module))
    return e;
  tellUnused(*model.module, model.roles);
  if (run.options.leaves > 0)
    dist::setLeaves(*model.module, run.options.leaves);
  return llvm::Error::success();
}

llvm::Expected<compiler::ImportedModel> quietModel(Compilation &run) {
  llvm::Expected<compiler::ImportedModel> model = importModel(run);
  if (model)
    if (llvm::Error e = train(run, *model))
      return e;
  return model;
}

llvm::Expected<compiler::ImportedModel> preparedModel(Compilation &run) {
  run.begins("import");
  llvm::Expected<compiler::ImportedModel> model = importModel(run);
  if (!model)
    return model;
  run.finished("import");
  const char *next = run.options.train ? "training" : "simplify";
  run.begins(next);
  for (const std::string &warning : model->warnings)
    run.say("warning: " + warning);
  if (llvm::Error e = run.dump(*model->module, "1-imported.mlir"))
    return e;
  if (llvm::Error e = train(run, *model))
    return e;
  run.finished(next);
  if (llvm::Error e = run.dump(*model->module, "2-training.mlir"))
    return e;
  return model;
}

// ---- 3 ----

llvm::Error annotate(Compilation &run, ModuleOp module, const strategies::AssignOptions &assign,
                     strategies::AssignReport &report) {
  return run.passes("", module, [&](PassManager &passes) {
    // The verifier of phase 3 runs at the start of phase 4, after cut statistics are decomposed, because it refuses
    // them.
    passes.addPass(strategies::createAssignStrategiesPass(assign, report));
  });
}

// ---- 4 and 5: compiler/partition/Passes.cpp lists their passes, which tools and tests run, too ----

llvm::Error reshard(Compilation &run, ModuleOp module) {
  return run.passes("partition", module, [](PassManager &passes) { compiler::buildReshardPipeline(passes); });
}

/// Adds the program of --broadcast-parameters. It comes last, because it is written as a local program.
static void addStart(const Compilation &run, PassManager &passes) {
  if (run.options.broadcastParameters)
    passes.addPass(compiler::createAddStartProgramPass());
}

/// What is sent as one message or beside kernels, and what operators take, by the costs with which the report is made.
static compiler::JoinedCollectives joinedBy(const strategies::CostModel &model, const strategies::JoinOptions &join) {
  return [&](func::FuncOp func) { return strategies::sentCollectives(func, model, join); };
}

/// The passes up to the local program of the whole network. In mode hybrid it is local from the start.
static void addWhole(const Compilation &run, PassManager &passes, const strategies::CostModel &model) {
  if (run.hybrid)
    return compiler::buildWrittenPipeline(passes);
  // The resharding planner must use the costs with which the strategies were chosen.
  compiler::buildWholePipeline(
      passes, [&model](const dist::Mesh &) { return model.collectiveCost(); }, model.sumRules());
}

llvm::Error localize(Compilation &run, ModuleOp module, const strategies::CostModel &model, bool fuse,
                     const strategies::JoinOptions &join) {
  return run.passes("partition", module, [&](PassManager &passes) {
    addWhole(run, passes, model);
    compiler::buildOrderPipeline(passes, fuse, joinedBy(model, join));
    addStart(run, passes);
  });
}

/// `all`: the costs on the whole mesh.
static compiler::PipelineCosts pipelineCosts(const Compilation &run, const strategies::CostModel &all,
                                             const strategies::CostModel &model,
                                             const strategies::JoinOptions &join = {}) {
  const int64_t devices = run.pipeline->mesh.axisSize(0);
  return {all,
          model,
          run.assign.memoryLimit,
          run.pipeline->options.places(devices),
          join,
          compiler::placesOf(run.pipeline->options, devices, run.training.accumulate)};
}

strategies::CostModel costsOfAllStages(const Compilation &run) {
  return {run.pipeline->mesh, run.assign.topology, run.assign.profile};
}

llvm::Error localizeWhole(Compilation &run, ModuleOp module, const strategies::CostModel &model) {
  return run.passes("partition", module, [&](PassManager &passes) { addWhole(run, passes, model); });
}

llvm::Error cutPlaced(Compilation &run, ModuleOp module, const strategies::StagePlaces &places) {
  // Before fusion and messages, which must not lead from one stage or section to another.
  return run.passes("stages", module, [&](PassManager &passes) {
    passes.addPass(compiler::createCutStagesPass(
        {.stages = places.stages(), .devices = places.devices, .returns = places.returns}));
    // Not before: what a stage computes again of another one it would have to receive.
    if (run.options.fuse)
      passes.nest<ModuleOp>().addNestedPass<func::FuncOp>(compiler::createRepeatPass());
  });
}

llvm::Expected<compiler::OperatorStages> cutIntoStages(Compilation &run, ModuleOp module,
                                                       const strategies::CostModel &model, CutMemory &memory) {
  const strategies::CostModel all = costsOfAllStages(run);
  compiler::PipelineCosts costs = pipelineCosts(run, all, model);
  costs.limit = memory.limit;
  costs.isHard = memory.isHard;
  costs.work = &run.cutWork;
  if (llvm::Error e = strategies::givenStages(module, run.assign.user).moveInto(costs.given))
    return e;
  if (llvm::Error e = compiler::placeOperators(module, costs, &memory.counted))
    return e;
  compiler::OperatorStages stages = compiler::stagesOfOperators(module);
  if (llvm::Error e = cutPlaced(run, module, costs.places))
    return e;
  return stages;
}

llvm::Error orderStages(Compilation &run, ModuleOp module, const strategies::CostModel &model,
                        const strategies::JoinOptions &join, compiler::PipelineReport &report) {
  const strategies::CostModel all = costsOfAllStages(run);
  // Before fusion, since the times are those of single operators.
  return compiler::orderStages(module, pipelineCosts(run, all, model, join), run.pipeline->options, report);
}

llvm::Error finishStages(Compilation &run, ModuleOp module, llvm::function_ref<StageCosts(int64_t)> costs,
                         const strategies::JoinOptions &join) {
  return run.passes("stages", module, [&](PassManager &passes) {
    OpPassManager &each = passes.nest<ModuleOp>();
    compiler::buildOrderPipeline(each, run.options.fuse, [costs, join](func::FuncOp func) {
      const StageCosts own = costs(func->getParentOp()->getAttrOfType<IntegerAttr>(dist::kStageAttr).getInt());
      return strategies::sentCollectives(func, *own.collectives, join, own.kernels);
    });
    if (run.options.broadcastParameters)
      each.addPass(compiler::createAddStartProgramPass());
  });
}

// ---- 6 ----

compiler::EmitOptions emitOptions(const CompileOptions &options) {
  compiler::EmitOptions emit;
  emit.model = llvm::sys::path::filename(options.model).str();
  emit.producer = "tessera-compile " TESSERA_VERSION;
  return emit;
}

llvm::Error emit(Compilation &run, ModuleOp local, ModuleOp whole, const compiler::WeightStore &weights,
                 const OutputDirectory &output) {
  compiler::EmitOptions options = emitOptions(run.options);
  options.run = [&topology = run.assign.topology](const dist::Mesh &mesh, llvm::ArrayRef<int> axes) {
    return topology.run(mesh, axes);
  };
  const bool later = run.options.initAtStart || weights.generatedBytes() > kMaxStoredInit;
  if (later)
    options.generated = &weights;
  if (llvm::Error e = weights.writeSafetensors(output.file(options.weightsFile), !later, /*durable=*/false))
    return e;
  return compiler::emitPlan(local, whole, options, output.path());
}

} // namespace tessera
