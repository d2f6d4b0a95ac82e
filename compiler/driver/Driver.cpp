#include "compiler/driver/Driver.h"

#include "compiler/driver/Compiler.h"
#include "compiler/driver/OutputDirectory.h"

#include "compiler/hybrid/Complete.h"
#include "compiler/transform/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "runtime/plan/Recipe.h"
#include "runtime/support/Version.h"
#include "strategies/space/FunctionAssignment.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

/// More bytes of initial values are not stored but made when a run starts.
constexpr uint64_t kMaxStoredInit = uint64_t(1) << 30;

/// Writes phase 4 where it arises, in the middle of the partition pipeline.
class PhaseDumper : public PassInstrumentation {
public:
  explicit PhaseDumper(std::function<void(Operation *)> dump) : dump_(std::move(dump)) {}
  void runAfterPass(Pass *pass, Operation *op) override {
    if (pass->getArgument() == "dist-insert-reshards")
      dump_(op);
  }

private:
  std::function<void(Operation *)> dump_;
};

} // namespace

llvm::Error Compiler::dump(Operation *op, llvm::StringRef file) {
  if (options_.dumpPhases.empty())
    return llvm::Error::success();
  llvm::SmallString<128> path(options_.dumpPhases);
  if (std::error_code e = llvm::sys::fs::create_directories(path))
    return llvm::createStringError("%s: %s", options_.dumpPhases.c_str(), e.message().c_str());
  llvm::sys::path::append(path, file);
  std::string text;
  llvm::raw_string_ostream(text) << *op << "\n";
  return writeFile(path.str().str(), text);
}

llvm::Error Compiler::runPasses(ModuleOp module, const std::string &where,
                                llvm::function_ref<void(PassManager &)> build) {
  PassManager manager(&context_);
  build(manager);
  if (failed(manager.run(module)))
    return diagnostics_.error(where);
  return llvm::Error::success();
}

llvm::Error Compiler::partition(ModuleOp module, bool fuse, bool dumpPhases, const strategies::CostModel &model) {
  compiler::PartitionOptions partition;
  partition.fuse = fuse;
  // The planner must choose by the costs that the strategies were chosen by.
  partition.cost = [&](const dist::Mesh &) { return model.collectiveCost(); };
  llvm::Error dumped = llvm::Error::success();
  llvm::Error e = runPasses(module, "partition", [&](PassManager &manager) {
    if (dumpPhases)
      manager.addInstrumentation(std::make_unique<PhaseDumper>(
          [&](Operation *op) { dumped = llvm::joinErrors(std::move(dumped), dump(op, "4-resharded.mlir")); }));
    compiler::buildPartitionPipeline(manager, partition);
  });
  if (e || !dumpPhases)
    return llvm::joinErrors(std::move(e), std::move(dumped));
  return llvm::joinErrors(std::move(dumped), dump(module, "5-local.mlir"));
}

/// The unpartitioned program, operator by operator: what --verify holds the plan against.
llvm::Expected<OwningOpRef<ModuleOp>> Compiler::sequential(ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  strategies::AssignOptions assign;
  assign.topology = options_.assign.topology;
  assign.topology.axes.clear(); // there are none
  AssignReport report;
  if (llvm::Error e = strategies::assignStrategies(*copy, assign, report))
    return e;
  strategies::CostModel model(assign.mesh, assign.topology);
  if (llvm::Error e = partition(*copy, /*fuse=*/false, /*dumpPhases=*/false, model))
    return e;
  return copy;
}

llvm::Expected<double> Compiler::gradientScale(ModuleOp module) const {
  const dist::Mesh &mesh = options_.assign.mesh;
  if (options_.hybrid)
    return double(options_.sumGradients ? mesh.size(options_.hybrid->batch) : 1) / double(mesh.numRanks());
  if (!options_.sumGradients)
    return 1.0;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[i]);
          graph::argRole(func, i) == graph::kInput && type.getRank() > 0)
        return double(mesh.size(strategies::batchAxes(mesh, type.getDimSize(0) * options_.training->accumulate)));
  return llvm::createStringError("--gradient-reduction sum: the model has no input with a batch");
}

llvm::Expected<compiler::ImportedModel> Compiler::prepare() {
  compiler::ImportOptions import = options_.import;
  import.training = options_.training.has_value();
  if (options_.hybrid) {
    const compiler::HybridOptions &hybrid = *options_.hybrid;
    compiler::ImportOptions::PerRank perRank;
    perRank.mesh = hybrid.mesh;
    perRank.wholeShape = [&](llvm::StringRef name, llvm::ArrayRef<int64_t> local) -> llvm::Expected<compiler::Shape> {
      auto sharding = hybrid.parameter(name, local);
      if (!sharding)
        return sharding.takeError();
      return compiler::wholeShape(hybrid.mesh, *sharding, local);
    };
    import.perRank = std::move(perRank);
  }
  llvm::Expected<compiler::ImportedModel> imported = compiler::importOnnx(context_, options_.model, import);
  if (!imported)
    return imported.takeError();
  ModuleOp module = *imported->module;
  context_.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  phase("import");
  if (llvm::Error e = dump(module, "1-imported.mlir"))
    return e;

  if (options_.fuseAttention && !options_.hybrid) { // what a user wrote for one rank stays
    auto keep = [&](llvm::StringRef name) {         // a user's strategy speaks of it
      return llvm::any_of(options_.assign.user.entries,
                          [&](const strategies::UserEntry &entry) { return strategies::matchesName(entry.op, name); });
    };
    if (llvm::Error e = runPasses(module, options_.model, [&](PassManager &manager) {
          manager.addNestedPass<func::FuncOp>(compiler::createFuseAttentionPass(keep));
        }))
      return e;
  }
  if (options_.hybrid)
    if (llvm::Error e = compiler::annotate(module, *options_.hybrid))
      return e;
  if (options_.training) {
    compiler::TrainingOptions training = *options_.training;
    llvm::Expected<double> scale = gradientScale(module);
    if (!scale)
      return scale.takeError();
    training.gradientScale = *scale;
    training.perRank = options_.hybrid.has_value();
    if (llvm::Error e = compiler::buildTraining(module, training))
      return e;
  }
  if (options_.hybrid)
    if (llvm::Error e = compiler::complete(module, *options_.hybrid))
      return e;
  if (llvm::Error e = runPasses(module, options_.model, [&](PassManager &manager) {
        if (options_.precision != "f32")
          manager.addNestedPass<func::FuncOp>(compiler::createLowerPrecisionPass(options_.precision));
        manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
        manager.addNestedPass<func::FuncOp>(compiler::createSimplifyPass());
        manager.addNestedPass<func::FuncOp>(compiler::createIndexLimitsPass());
      }))
    return e;
  phase(options_.training ? "training" : "simplify");
  if (llvm::Error e = dump(module, "2-training.mlir"))
    return e;
  return imported;
}

llvm::Error Compiler::chooseMesh(ModuleOp module, strategies::AssignOptions &assign, CompileResult &result) {
  if (options_.chooseMesh) {
    auto meshes = strategies::rankMeshes(module, assign);
    if (!meshes)
      return meshes.takeError();
    result.meshes = std::move(*meshes);
    assign.mesh = result.meshes.front().mesh;
    phase("mesh");
  }
  result.mesh = assign.mesh;
  return llvm::Error::success();
}

llvm::Expected<CompileResult> Compiler::search() {
  llvm::Expected<compiler::ImportedModel> imported = prepare();
  if (!imported)
    return imported.takeError();
  CompileResult result;
  strategies::AssignOptions assign = options_.assign;
  if (llvm::Error e = chooseMesh(*imported->module, assign, result))
    return e;
  if (llvm::Error e = strategies::assignStrategies(*imported->module, assign, result.report))
    return e;
  phase("strategies");
  if (llvm::Error e = dump(*imported->module, "3-annotated.mlir"))
    return e;
  return result;
}

llvm::Expected<CompileResult> Compiler::run() {
  OutputDirectory output(options_.output);
  if (llvm::Error e = output.begin())
    return e;
  CompileResult result;
  llvm::Expected<compiler::ImportedModel> imported = prepare();
  if (!imported)
    return imported.takeError();
  ModuleOp module = *imported->module;

  strategies::AssignOptions assign = options_.assign;
  if (llvm::Error e = chooseMesh(module, assign, result))
    return e;
  assign.explain = true;
  compiler::EmitOptions emit;
  emit.model = llvm::sys::path::filename(options_.model).str();
  emit.producer = "tessera-compile " TESSERA_VERSION;
  Placed placed;
  if (llvm::Error e = placeBest(module, assign, emit, result, placed))
    return e;
  OwningOpRef<ModuleOp> &local = placed.local;
  const std::string &saved = placed.strategies;

  OwningOpRef<ModuleOp> whole; // a program that is one rank's has none
  if (!options_.hybrid) {
    llvm::Expected<OwningOpRef<ModuleOp>> made = sequential(module);
    if (!made)
      return made.takeError();
    whole = std::move(*made);
  }
  const compiler::WeightStore &weights = imported->weights;
  const bool later = options_.initAtStart || weights.generatedBytes() > kMaxStoredInit;
  if (later)
    emit.generated = &weights;
  if (llvm::Error e = weights.writeSafetensors(output.file(emit.weightsFile), !later))
    return e;
  if (llvm::Error e = compiler::emitPlan(*local, whole ? *whole : ModuleOp(), emit, output.path()))
    return e;
  result.numOperators = result.report.functions.empty() ? 0 : result.report.functions[0].operators.size();
  nlohmann::ordered_json report = strategies::toJson(result.report);
  report["model"] = emit.model;
  report["producer"] = emit.producer;
  report["recompute"] = result.recompute;
  nlohmann::ordered_json peak = nlohmann::ordered_json::array();
  for (const MemoryReport::Item &item : result.memory.atPeak)
    peak.push_back({{"name", item.name}, {"kind", item.kind}, {"bytes", item.bytes}});
  nlohmann::ordered_json meshes = nlohmann::ordered_json::array();
  for (const strategies::MeshCandidate &m : result.meshes)
    meshes.push_back(m.error.empty() ? nlohmann::ordered_json{{"mesh", m.mesh.str()},
                                                              {"predicted_ns", m.predicted},
                                                              {"communication_ns", m.communication},
                                                              {"peak_bytes_estimate", m.peakBytes}}
                                     : nlohmann::ordered_json{{"mesh", m.mesh.str()}, {"error", m.error}});
  if (!meshes.empty())
    report["meshes"] = std::move(meshes);
  report["memory"] = {{"arena_bytes", result.memory.arenaBytes},
                      {"parameter_bytes", result.memory.parameterBytes},
                      {"state_bytes", result.memory.stateBytes},
                      {"constant_bytes", result.memory.constantBytes},
                      {"activation_bytes", result.memory.activationBytes},
                      {"peak_program", result.memory.peakProgram},
                      {"peak_step", result.memory.peakStep},
                      {"at_peak", std::move(peak)}};
  if (llvm::Error e = writeFile(output.file("report.json"),
                                report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"))
    return e;
  if (!options_.hybrid)
    if (llvm::Error e = writeFile(output.file("strategies.json"), saved))
      return e;
  if (const std::string recipe = options_.recipe ? options_.recipe() : ""; !recipe.empty())
    if (llvm::Error e = writeFile(output.file(rt::kRecipeName), recipe))
      return e;
  if (!options_.saveStrategies.empty())
    if (llvm::Error e = writeFile(options_.saveStrategies, saved))
      return e;
  if (llvm::Error e = output.commit())
    return e;
  phase("emit");
  return result;
}

llvm::Expected<std::vector<ClusterPrediction>>
predictClusters(const CompileOptions &options, llvm::ArrayRef<int64_t> nodes,
                const std::function<void(const std::string &)> &progress) {
  return Compiler(options, progress).predict(nodes);
}

llvm::Expected<CompileResult> compile(const CompileOptions &options,
                                      const std::function<void(const std::string &)> &progress) {
  return Compiler(options, progress).run();
}

llvm::Expected<CompileResult> searchOnly(const CompileOptions &options,
                                         const std::function<void(const std::string &)> &progress) {
  return Compiler(options, progress).search();
}

} // namespace tessera
