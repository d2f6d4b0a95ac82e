#include "compiler/driver/Compilation.h"

#include "compiler/driver/OutputDirectory.h"
#include "compiler/driver/stages/OwnMeshes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/Verifier.h"
#include "runtime/support/Threads.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Threading.h"

#include <algorithm>

using namespace mlir;

namespace tessera {

Compilation::Compilation(const CompileOptions &options, const Progress &progress)
    : own_(std::make_unique<MLIRContext>()), isWatched_(true), options(options), context(*own_), progress_(progress) {
  handler_.emplace(&context, [](Diagnostic &) { return success(); });
  // MLIR ends the process where it gets no thread. It takes at most one a function.
  constexpr unsigned mostFunctions = 8;
  if (!rt::probeThreads(int(std::min(mostFunctions, llvm::hardware_concurrency().compute_thread_count()))))
    context.disableMultithreading();
  // An error names what it is about. The operator's text, a whole function at worst, would hide it.
  context.printOpOnDiagnostic(false);
  // Passes register the dialects that they need, which must not happen on two threads at once. So all are known.
  DialectRegistry dialects;
  dialects.insert<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  context.appendDialectRegistry(dialects);
  context.loadAllAvailableDialects();
}

Compilation::Compilation(const Compilation &run, const Progress &progress)
    : isWatched_(false), options(run.options), assign(run.assign), hybrid(run.hybrid), import(run.import),
      training(run.training), pipeline(run.pipeline), ownMeshes(run.ownMeshes), chooseMesh(run.chooseMesh),
      chooseStages(run.chooseStages), longEnough(run.longEnough), onlyOnce(run.onlyOnce), context(run.context),
      overlap_(run.overlap_), progress_(progress) {
  assign.watch = nullptr;
}

int Compilation::threads() const { return context.isMultithreadingEnabled() ? assign.exactThreads : 1; }

llvm::Error Compilation::read(llvm::StringRef chooses) {
  if (llvm::Error e = checkOptions(options, chooses))
    return e;
  if (llvm::Error e = parseOwnMeshes(options.assign.mesh).moveInto(ownMeshes))
    return e;
  strategies::AssignStrategiesPassOptions asked = options.assign;
  if (!ownMeshes.empty())
    asked.mesh = ownMeshes.front().str();
  if (llvm::Error e = strategies::parseAssign(asked).moveInto(assign))
    return e;
  overlap_ = assign.join.overlap;
  llvm::Expected<compiler::PipelineOptions> pipelined = compiler::parsePipeline(options.pipeline);
  if (!pipelined)
    return pipelined.takeError();
  chooseStages = pipelined->isChosen();
  if (assign.mesh.findAxis(dist::kStageAxis) == 0) {
    if (llvm::Error e = compiler::completePipeline(*pipelined, assign.mesh.axisSize(0),
                                                   options.train ? options.training.accumulate : 1))
      return e;
    if (llvm::Error e = setMesh(assign.mesh, std::move(*pipelined)))
      return e;
  }
  if (!ownMeshes.empty()) {
    if (llvm::Error e = compiler::completePipeline(*pipelined, int64_t(ownMeshes.size()),
                                                   options.train ? options.training.accumulate : 1))
      return e;
    if (pipelined->chunks > 1)
      return llvm::createStringError("--pipeline schedule=%s: it has %d stages in a line, but stages with meshes of "
                                     "their own have ranks of their own; use a file with one stage in each line",
                                     pipelined->schedule.c_str(), pipelined->chunks);
    if (llvm::Error e = setOwnMeshes(std::move(ownMeshes), std::move(*pipelined)))
      return e;
  }
  if (llvm::Error e = checkGivenStages())
    return e;
  assign.stop = options.stop;
  assign.reproducible = options.leaves > 0;
  if (options.watch)
    assign.watch = &options.watch->search;
  // With strategies of the user the mesh stays as given, since they name axes or splits that another mesh may not have.
  chooseMesh = assign.mode == "auto" && options.assign.strategy.empty() && assign.mesh.numRanks() > 1 &&
               !llvm::StringRef(options.assign.mesh).contains('=') && !chooseStages && ownMeshes.empty();
  if (assign.mode == "hybrid") {
    auto read = options.hybridOptions.empty() ? compiler::HybridOptions::none(assign.mesh)
                                              : compiler::HybridOptions::load(options.hybridOptions, assign.mesh);
    if (!read)
      return read.takeError();
    hybrid = std::move(*read);
  }
  import = options.import;
  import.training = options.train;
  if (options.train) {
    training = options.training;
    if (training.lossScale.empty() && options.precision == "f16")
      training.lossScale = "dynamic"; // without it gradients in float16 underflow
    training.perRank = hybrid.has_value();
    setMicroBatches(training.accumulate);
  }
  return llvm::Error::success();
}

llvm::Error Compilation::checkGivenStages() const {
  if (assign.user.stages.empty())
    return llvm::Error::success();
  const char *file = assign.user.origin.c_str();
  if (!pipeline)
    return llvm::createStringError(
        "strategy file %s: it gives operators stages, but mesh %s has none; use a mesh such as "
        "stage=2,data=2",
        file, assign.mesh.str().c_str());
  const int stages = pipeline->options.places(places()).stages();
  for (const strategies::UserStage &given : assign.user.stages)
    if (given.stage >= stages)
      return llvm::createStringError(
          "strategy file %s: operator '%s': there is no stage %lld; the %d stages are 0 to %d", file, given.op.c_str(),
          (long long)given.stage, stages, stages - 1);
  return llvm::Error::success();
}

llvm::Error Compilation::setMesh(dist::Mesh mesh, compiler::PipelineOptions pipelined) {
  pipeline.reset();
  cutWork = {};
  assign.mesh = mesh;
  assign.join.overlap = overlap_;
  if (mesh.findAxis(dist::kStageAxis) != 0)
    return llvm::Error::success();
  if (llvm::Error e = assign.topology.fits(mesh))
    return e;
  assign.memoryLimit = strategies::memoryOf(assign);
  // Strategies are chosen for the whole network, as if it ran on one place of the axis. What is hidden is known only
  // when it is cut.
  assign.join.overlap = strategies::Overlapping::Off;
  assign.mesh = dist::Mesh(mesh.axes().drop_front());
  pipeline = Pipeline{std::move(mesh), std::move(pipelined), overlap_};
  return llvm::Error::success();
}

llvm::Error Compilation::setOwnMeshes(std::vector<dist::Mesh> meshes, compiler::PipelineOptions pipelined) {
  ownMeshes = std::move(meshes);
  if (llvm::Error e = setMesh(ranksInARow(ownMeshes), std::move(pipelined)))
    return e;
  assign.mesh = ownMeshes.front();
  return llvm::Error::success();
}

void Compilation::setMicroBatches(int64_t number) {
  training.accumulate = number;
  import.microBatches = number;
}

llvm::Error Compilation::passes(llvm::StringRef where, ModuleOp module, llvm::function_ref<void(PassManager &)> build) {
  PassManager manager(&context);
#ifdef NDEBUG
  manager.enableVerifier(false); // after each pass; once behind them all finds the same errors in less time
#endif
  build(manager);
  // What passes on other threads of MLIR say is told here, too, once they have ended.
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&said, thread = llvm::get_threadid()](Diagnostic &d) {
    if (llvm::get_threadid() != thread)
      return failure(); // of another run
    if (d.getSeverity() == DiagnosticSeverity::Error) {
      said += (said.empty() ? "" : "; ") + d.str();
      for (Diagnostic &note : d.getNotes())
        said += " (" + note.str() + ")";
    }
    return success();
  });
  if (succeeded(manager.run(module)) && succeeded(verify(module)))
    return llvm::Error::success();
  const std::string what = said.empty() ? "failed" : said;
  return llvm::createStringError(where.empty() ? what : (where + ": " + what).str());
}

llvm::Error Compilation::dump(ModuleOp module, llvm::StringRef file) const {
  if (options.dumpPhases.empty())
    return llvm::Error::success();
  llvm::SmallString<128> path(options.dumpPhases);
  if (std::error_code e = llvm::sys::fs::create_directories(path))
    return llvm::createStringError("%s: %s", options.dumpPhases.c_str(), e.message().c_str());
  llvm::sys::path::append(path, file);
  std::string text;
  llvm::raw_string_ostream(text) << *module << "\n";
  return writeFile(path.str().str(), text);
}

void Compilation::begins(const char *phase) const {
  if (options.watch && isWatched_)
    options.watch->phase = phase;
}

bool Compilation::stopped() const { return options.stop && *options.stop; }

void Compilation::hurry(strategies::AssignOptions &assign) const {
  if (stopped())
    assign.searchWork = std::min(assign.searchWork, strategies::kHurriedWork);
}

void Compilation::finished(llvm::StringRef phase) {
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  progress_(llvm::formatv("{0,-12}{1,8:F2} s", phase, seconds).str());
}

} // namespace tessera
