#include "tools/compile/Pipeline.h"

#include "tools/compile/Output.h"
#include "tools/compile/Recompute.h"

#include "compiler/autodiff/Passes.h"
#include "compiler/hybrid/Complete.h"
#include "compiler/hybrid/Varying.h"
#include "compiler/partition/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "runtime/plan/Recipe.h"
#include "strategies/assign/FunctionPlan.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <limits>

using namespace mlir;

namespace tessera {

using compiler::MemoryReport;
using strategies::AssignReport;
using strategies::bytesText;

namespace {

/// Searches again with a smaller limit where the arena does not fit.
constexpr int kMaxAttempts = 5;
/// From here on a strategy counts as dearer for the limit of memory's sake.
constexpr double kSqueezed = 1.005;
/// More bytes of initial values are not stored but made when a run starts.
constexpr uint64_t kMaxStoredInit = uint64_t(1) << 30;

/// Collects what passes say, so that a failure is one error and not lines on the terminal.
class Diagnostics {
public:
  explicit Diagnostics(MLIRContext &context)
      : handler_(&context, [this](Diagnostic &d) {
          if (d.getSeverity() == DiagnosticSeverity::Error) {
            text_ += (text_.empty() ? "" : "; ") + d.str();
            for (Diagnostic &note : d.getNotes())
              text_ += " (" + note.str() + ")";
          }
          return success();
        }) {}
  llvm::Error error(const std::string &where) {
    return llvm::createStringError("%s: %s", where.c_str(),
                                   text_.empty() ? "failed" : text_.c_str());
  }

private:
  std::string text_;
  ScopedDiagnosticHandler handler_;
};

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

class Compiler {
public:
  Compiler(const CompileOptions &options, const std::function<void(const std::string &)> &progress)
      : options_(options), progress_(progress), diagnostics_(context_) {}

  llvm::Expected<CompileResult> run();
  llvm::Expected<CompileResult> search();
  llvm::Expected<std::vector<ClusterPrediction>> predict(llvm::ArrayRef<int64_t> nodes);

private:
  /// Phases 1 and 2.
  llvm::Expected<compiler::ImportedModel> prepare();
  /// The mesh that is to be used, with those that were compared in `result`.
  llvm::Error chooseMesh(ModuleOp module, strategies::AssignOptions &assign, CompileResult &result);
  llvm::Error predictOne(ModuleOp module, ClusterPrediction &cluster);
  void phase(const std::string &what) {
    auto now = std::chrono::steady_clock::now();
    double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    progress_(llvm::formatv("{0,-12}{1,8:F2} s", what, seconds).str());
  }
  llvm::Error dump(Operation *op, llvm::StringRef file);
  llvm::Error runPasses(ModuleOp module, const std::string &where,
                        llvm::function_ref<void(PassManager &)> build);
  llvm::Error partition(ModuleOp module, bool fuse, bool dumpPhases,
                        const strategies::CostModel &model);
  /// A program of one rank that fits, or not.
  struct Placed {
    OwningOpRef<ModuleOp> local;
    std::string strategies;
    bool tooLarge = false; // the error is that nothing fits the limit
  };
  /// Phases 3 to 5, as often as it takes to fit.
  llvm::Error place(ModuleOp module, strategies::AssignOptions assign,
                    const compiler::EmitOptions &emit, CompileResult &result, Placed &placed);
  llvm::Error placeWith(const Recomputed &again, ModuleOp module,
                        const strategies::AssignOptions &assign, const compiler::EmitOptions &emit,
                        CompileResult &result, Placed &placed);
  /// What --recompute asks for; "auto": what fits and is predicted to take least.
  llvm::Error placeBest(ModuleOp module, const strategies::AssignOptions &assign,
                        const compiler::EmitOptions &emit, CompileResult &result, Placed &placed);
  /// Of the first function, were there no limit of memory.
  llvm::Expected<strategies::Cost> predictUnlimited(ModuleOp module,
                                                    strategies::AssignOptions assign);
  std::function<double(Operation *)> timeOnOneRank(const strategies::AssignOptions &assign) const;
  /// From phase 2 to phase 5 of a program that is one rank's.
  llvm::Error placeHybrid(ModuleOp module, const compiler::EmitOptions &emit, CompileResult &result,
                          Placed &placed);
  llvm::Expected<OwningOpRef<ModuleOp>> sequential(ModuleOp module);
  /// By what the loss's gradients are multiplied, so that they are the mean or the sum that is asked for.
  llvm::Expected<double> gradientScale(ModuleOp module) const;
  /// The program that --broadcast-parameters asks for.
  llvm::Error addStart(ModuleOp local) {
    if (options_.broadcastParameters && failed(compiler::addStartProgram(local)))
      return diagnostics_.error("--broadcast-parameters");
    return llvm::Error::success();
  }
  llvm::Error overLimit(const MemoryReport &memory, int64_t limit) const;

  const CompileOptions &options_;
  const std::function<void(const std::string &)> &progress_;
  MLIRContext context_;
  Diagnostics diagnostics_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

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

llvm::Error Compiler::partition(ModuleOp module, bool fuse, bool dumpPhases,
                                const strategies::CostModel &model) {
  compiler::PartitionOptions partition;
  partition.fuse = fuse;
  // The planner must choose by the costs that the strategies were chosen by.
  partition.cost = [&](const dist::Mesh &) { return model.collectiveCost(); };
  llvm::Error dumped = llvm::Error::success();
  llvm::Error e = runPasses(module, "partition", [&](PassManager &manager) {
    if (dumpPhases)
      manager.addInstrumentation(std::make_unique<PhaseDumper>([&](Operation *op) {
        dumped = llvm::joinErrors(std::move(dumped), dump(op, "4-resharded.mlir"));
      }));
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

llvm::Error Compiler::overLimit(const MemoryReport &memory, int64_t limit) const {
  std::string text = llvm::formatv(
      "the plan needs {0} per rank but the limit is {1} ({2}); use more ranks, a smaller "
      "batch{3}{4} "
      "or a larger "
      "--memory; what fills it: {5}",
      bytesText(int64_t(memory.arenaBytes)), bytesText(limit),
      options_.assign.memoryLimit ? "--memory" : "topology " + options_.assign.topology.name,
      options_.assign.mode == "auto" || options_.hybrid
          ? ""
          : ", --mode auto (which cuts parameters and activations)",
      options_.training && options_.recompute == "none" ? ", --recompute auto" : "", memory.str());
  return llvm::createStringError("%s", text.c_str());
}

/// The loss is a mean over the whole batch. In a program that is one rank's it is a rank's own: the sum of all
/// ranks' losses is differentiated.
llvm::Expected<double> Compiler::gradientScale(ModuleOp module) const {
  const dist::Mesh &mesh = options_.assign.mesh;
  if (options_.hybrid)
    return double(options_.sumGradients ? mesh.size(options_.hybrid->batch) : 1) /
           double(mesh.numRanks());
  if (!options_.sumGradients)
    return 1.0;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[i]);
          graph::argRole(func, i) == graph::kInput && type.getRank() > 0)
        return double(mesh.size(
            strategies::batchAxes(mesh, type.getDimSize(0) * options_.training->accumulate)));
  return llvm::createStringError("--gradient-reduction sum: the model has no input with a batch");
}

llvm::Expected<compiler::ImportedModel> Compiler::prepare() {
  compiler::ImportOptions import = options_.import;
  import.training = options_.training.has_value();
  if (options_.hybrid) {
    const compiler::HybridOptions &hybrid = *options_.hybrid;
    compiler::ImportOptions::PerRank perRank;
    perRank.mesh = hybrid.mesh;
    perRank.wholeShape = [&](llvm::StringRef name,
                             llvm::ArrayRef<int64_t> local) -> llvm::Expected<compiler::Shape> {
      auto sharding = hybrid.parameter(name, local);
      if (!sharding)
        return sharding.takeError();
      return compiler::wholeShape(hybrid.mesh, *sharding, local);
    };
    import.perRank = std::move(perRank);
  }
  llvm::Expected<compiler::ImportedModel> imported =
      compiler::importOnnx(context_, options_.model, import);
  if (!imported)
    return imported.takeError();
  ModuleOp module = *imported->module;
  context_.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  phase("import");
  if (llvm::Error e = dump(module, "1-imported.mlir"))
    return e;

  if (options_.fuseAttention && !options_.hybrid) { // what a user wrote for one rank stays
    auto keep = [&](llvm::StringRef name) {         // a user's strategy speaks of it
      return llvm::any_of(options_.assign.user.entries, [&](const strategies::UserEntry &entry) {
        return strategies::matchesName(entry.op, name);
      });
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
          manager.addNestedPass<func::FuncOp>(
              compiler::createLowerPrecisionPass(options_.precision));
        manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
        manager.addNestedPass<func::FuncOp>(compiler::createSimplifyPass());
      }))
    return e;
  phase(options_.training ? "training" : "simplify");
  if (llvm::Error e = dump(module, "2-training.mlir"))
    return e;
  return imported;
}

llvm::Error Compiler::chooseMesh(ModuleOp module, strategies::AssignOptions &assign,
                                 CompileResult &result) {
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

llvm::Error Compiler::place(ModuleOp module, strategies::AssignOptions assign,
                            const compiler::EmitOptions &emit, CompileResult &result,
                            Placed &placed) {
  const int64_t limit = assign.memoryLimit ? assign.memoryLimit
                                           : assign.topology.memoryPerRank(assign.mesh.numRanks());
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
    assign.memoryLimit = tooSmall ? tooSmall + (asked - tooSmall) / 2
                                  : std::max<int64_t>(1, int64_t(double(asked) * excess * 0.97));
    progress_("the plan needs " + bytesText(int64_t(result.memory.arenaBytes)) +
              ", searching again for one that fits in " + bytesText(limit));
  }
}

llvm::Error Compiler::placeHybrid(ModuleOp module, const compiler::EmitOptions &emit,
                                  CompileResult &result, Placed &placed) {
  const strategies::AssignOptions &assign = options_.assign;
  if (llvm::Error e = assign.topology.fits(assign.mesh))
    return e;
  strategies::CostModel model(assign.mesh, assign.topology, assign.profile);
  AssignReport &report = result.report;
  report = AssignReport();
  report.mode = assign.mode;
  report.mesh = assign.mesh.str();
  report.topology = assign.topology.name;
  report.memoryLimit = assign.memoryLimit ? assign.memoryLimit
                                          : assign.topology.memoryPerRank(assign.mesh.numRanks());
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
  if (llvm::Error e = runPasses(*placed.local, "partition", [&](PassManager &manager) {
        compiler::buildLocalPipeline(manager, options_.fuse);
      }))
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

llvm::Error Compiler::placeWith(const Recomputed &again, ModuleOp module,
                                const strategies::AssignOptions &assign,
                                const compiler::EmitOptions &emit, CompileResult &result,
                                Placed &placed) {
  OwningOpRef<ModuleOp> program(module.clone());
  if (again.level != "none")
    if (llvm::Error e = runPasses(*program, options_.model, [&](PassManager &manager) {
          manager.addNestedPass<func::FuncOp>(
              compiler::createRecomputePass(again.level, again.segments));
        }))
      return e;
  result.recompute = again.str();
  return options_.hybrid ? placeHybrid(*program, emit, result, placed)
                         : place(*program, assign, emit, result, placed);
}

llvm::Error Compiler::placeBest(ModuleOp module, const strategies::AssignOptions &assign,
                                const compiler::EmitOptions &emit, CompileResult &result,
                                Placed &placed) {
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
    return placeWith(llvm::cantFail(Recomputed::parse(best->result.recompute)), module, assign,
                     emit, result, placed);
  result = std::move(best->result);
  placed = std::move(best->placed);
  return llvm::Error::success();
}

llvm::Expected<strategies::Cost> Compiler::predictUnlimited(ModuleOp module,
                                                            strategies::AssignOptions assign) {
  OwningOpRef<ModuleOp> copy(module.clone());
  assign.memoryLimit = std::numeric_limits<int64_t>::max() / 4;
  assign.explain = false;
  assign.dumpGraph.clear();
  AssignReport report;
  if (llvm::Error e = strategies::assignStrategies(*copy, assign, report))
    return e;
  return report.functions.empty() ? strategies::Cost(0) : report.functions.front().total();
}

std::function<double(Operation *)>
Compiler::timeOnOneRank(const strategies::AssignOptions &assign) const {
  auto model = std::make_shared<strategies::CostModel>(llvm::cantFail(dist::Mesh::parse("1")),
                                                       assign.topology, assign.profile);
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
  result.numOperators =
      result.report.functions.empty() ? 0 : result.report.functions[0].operators.size();
  nlohmann::ordered_json report = strategies::toJson(result.report);
  report["model"] = emit.model;
  report["producer"] = emit.producer;
  report["recompute"] = result.recompute;
  nlohmann::ordered_json peak = nlohmann::ordered_json::array();
  for (const MemoryReport::Item &item : result.memory.atPeak)
    peak.push_back({{"name", item.name}, {"kind", item.kind}, {"bytes", item.bytes}});
  nlohmann::ordered_json meshes = nlohmann::ordered_json::array();
  for (const strategies::MeshCandidate &m : result.meshes)
    meshes.push_back(m.error.empty()
                         ? nlohmann::ordered_json{{"mesh", m.mesh.str()},
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
  if (llvm::Error e =
          writeFile(output.file("report.json"),
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

llvm::Error Compiler::predictOne(ModuleOp module, ClusterPrediction &cluster) {
  strategies::AssignOptions assign = options_.assign;
  llvm::Expected<strategies::Topology> topology = assign.topology.withNodes(cluster.nodes);
  if (!topology)
    return topology.takeError();
  assign.topology = std::move(*topology);
  if (cluster.nodes > 1) {
    if (assign.mesh.findAxis("node") >= 0)
      return llvm::createStringError("--what-if adds an axis 'node' to the mesh, but %s has one",
                                     assign.mesh.str().c_str());
    auto mesh =
        dist::Mesh::parse("node=" + std::to_string(cluster.nodes) + "," + assign.mesh.str());
    if (!mesh)
      return mesh.takeError();
    assign.mesh = std::move(*mesh);
  }
  cluster.mesh = assign.mesh.str();
  if (llvm::Error e = assign.topology.fits(assign.mesh))
    return e;
  if (options_.recompute != "none") {
    CompileResult result;
    Placed placed;
    llvm::Error e = placeBest(module, assign, compiler::EmitOptions(), result, placed);
    if (e) {
      cluster.error = llvm::toString(std::move(e));
      return llvm::Error::success();
    }
    const strategies::FunctionReport &step = result.report.functions.front();
    cluster.predicted = step.total();
    cluster.communication = step.communication;
    cluster.memory = int64_t(result.memory.arenaBytes);
    cluster.recompute = result.recompute;
    cluster.fits = true;
    return llvm::Error::success();
  }
  OwningOpRef<ModuleOp> local(module.clone());
  AssignReport report;
  if (llvm::Error e = strategies::assignStrategies(*local, assign, report)) {
    cluster.error = llvm::toString(std::move(e));
    return llvm::Error::success();
  }
  if (report.functions.empty())
    return llvm::createStringError("the model has no function");
  cluster.predicted = report.functions.front().total();
  cluster.communication = report.functions.front().communication;
  strategies::CostModel model(assign.mesh, assign.topology, assign.profile);
  if (llvm::Error e = partition(*local, options_.fuse, /*dumpPhases=*/false, model))
    return e;
  llvm::Expected<MemoryReport> memory = compiler::planMemory(*local, compiler::EmitOptions());
  if (!memory)
    return memory.takeError();
  cluster.memory = int64_t(memory->arenaBytes);
  cluster.fits = cluster.memory <= report.memoryLimit;
  return llvm::Error::success();
}

llvm::Expected<std::vector<ClusterPrediction>> Compiler::predict(llvm::ArrayRef<int64_t> nodes) {
  llvm::Expected<compiler::ImportedModel> imported = prepare();
  if (!imported)
    return imported.takeError();
  std::vector<ClusterPrediction> list;
  for (int64_t n : nodes) {
    list.emplace_back();
    list.back().nodes = n;
    if (llvm::Error e = predictOne(*imported->module, list.back()))
      return e;
    phase(std::to_string(n) + (n == 1 ? " node" : " nodes"));
  }
  return list;
}

} // namespace

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

std::string summary(const CompileOptions &options, const CompileResult &result) {
  using llvm::formatv;
  std::string out;
  auto ms = [](strategies::Cost ns) { return formatv("{0:F3} ms", double(ns) / 1e6).str(); };
  int64_t ranks = result.mesh.numRanks();
  out += formatv("mesh         {0}, {1} rank{2}, mode {3}, topology {4}\n",
                 result.report.mesh.empty() ? "1" : result.report.mesh, ranks,
                 ranks == 1 ? "" : "s", result.report.mode, result.report.topology);
  for (const strategies::MeshCandidate &m : result.meshes)
    out += formatv("             {0,-14} {1}\n", m.mesh.str(),
                   m.error.empty() ? "predicted " + ms(m.predicted) + ", of it communication " +
                                         ms(m.communication)
                                   : m.error);
  for (const strategies::FunctionReport &f : result.report.functions) {
    out += formatv("{0,-13}{1} operators; predicted {2} = compute {3} + communication {4}\n",
                   f.name, f.operators.size(), ms(f.total()), ms(f.compute), ms(f.communication));
    out += formatv("             {0} collectives, {1} sent per rank\n", f.numCollectives,
                   bytesText(int64_t(f.bytesSent)));
    if (!f.search.searcher.empty())
      out += formatv("             search: {0} nodes, {1} options, {2} edges, {3:F2} s + {4:F2} s "
                     "({5}); {6}\n",
                     f.search.nodes, f.search.options, f.search.edges, f.search.buildSeconds,
                     f.search.solveSeconds, f.search.searcher,
                     f.search.optimal ? std::string("optimal, gap 0 %")
                                      : formatv("gap {0:F2} %", 100 * f.search.gap()).str());
  }
  if (options.output.empty()) {
    if (!result.report.functions.empty())
      out += formatv("memory       about {0} per rank of {1}: parameters and states {2}\n",
                     bytesText(result.report.functions.front().peakBytes),
                     bytesText(result.report.memoryLimit),
                     bytesText(result.report.functions.front().persistentBytes));
    return out;
  }
  out += formatv("memory       {0} per rank of {1}: parameters {2}, states {3}, constants {4}, "
                 "activations {5}\n",
                 bytesText(int64_t(result.memory.arenaBytes)), bytesText(result.report.memoryLimit),
                 bytesText(int64_t(result.memory.parameterBytes)),
                 bytesText(int64_t(result.memory.stateBytes)),
                 bytesText(int64_t(result.memory.constantBytes)),
                 bytesText(int64_t(result.memory.activationBytes)));
  if (result.recompute != "none")
    out += "recompute    " + result.recompute + "\n";
  return out + "plan         " + options.output + "\n";
}

std::string table(llvm::ArrayRef<ClusterPrediction> clusters, int64_t ranksPerNode) {
  std::string out = "nodes  ranks  step         communication  efficiency  memory per rank\n";
  for (const ClusterPrediction &c : clusters) {
    if (!c.error.empty()) {
      out += llvm::formatv("{0,5}  {1,5}  {2}\n", c.nodes, c.nodes * ranksPerNode, c.error);
      continue;
    }
    const ClusterPrediction &first = clusters.front();
    auto ms = [](strategies::Cost ns) {
      return llvm::formatv("{0:F3} ms", double(ns) / 1e6).str();
    };
    double scale = double(first.nodes) / double(c.nodes);
    std::string efficiency =
        first.error.empty() && c.predicted > 0
            ? llvm::formatv("{0:F1} %", 100 * scale * double(first.predicted) / double(c.predicted))
                  .str()
            : "-";
    out += llvm::formatv(
        "{0,5}  {1,5}  {2,-11}  {3,-13}  {4,-10}  {5}{6}\n", c.nodes, c.nodes * ranksPerNode,
        ms(c.predicted), ms(c.communication), efficiency, bytesText(c.memory),
        c.fits ? c.recompute == "none" ? "" : "  recompute " + c.recompute : " (does not fit)");
  }
  return out;
}

} // namespace tessera
