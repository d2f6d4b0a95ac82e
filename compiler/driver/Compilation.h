//===- Compilation.h - one run of the compiler ---------------------------------------------------===//
//
// A Compilation holds what every phase needs: the parsed options, and functions that run passes, report progress and
// measure time. This header is private to the driver.
//
//   Compilation run(options, progress);
//   if (Error e = run.read()) ...
//   if (Error e = run.passes("partition", module, [](PassManager &passes) { ... })) ...
//   run.finished("partition");
//
// Runs of the same options may go on side by side, on threads of their own: the first one, and others in its context.
//
//   Compilation other(run, itsProgress);
//   other.setMicroBatches(8);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_COMPILATION_H
#define TESSERA_COMPILER_DRIVER_COMPILATION_H

#include "compiler/driver/Driver.h"
#include "compiler/hybrid/HybridOptions.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <chrono>

namespace tessera {

class Compilation {
public:
  Compilation(const CompileOptions &options, const Progress &progress);
  /// Beside `run`, which must outlive it, with what that has read and set. It tells no watch what it does.
  Compilation(const Compilation &run, const Progress &progress);

  /// Checks the options (`chooses`: see checkOptions), reads their files, and sets the members below.
  llvm::Error read(llvm::StringRef chooses = "");

private:
  const std::unique_ptr<mlir::MLIRContext> own_; // of the first run
  const bool isWatched_;

public:
  const CompileOptions &options;
  strategies::AssignOptions assign;
  std::optional<compiler::HybridOptions> hybrid;
  compiler::ImportOptions import;
  compiler::BuildTrainingPassOptions training; // all but gradientScale, which depends on the imported module
  /// Of a mesh with stages. `assign` is about the mesh of one stage then, and its memory limit is set.
  struct Pipeline {
    dist::Mesh mesh; // of all stages
    compiler::PipelineOptions options;
    strategies::Overlapping overlap = strategies::Overlapping::Off; // inside the stages; that of `assign` is off
  };
  std::optional<Pipeline> pipeline;
  /// Of stages with meshes of their own (stages/OwnMeshes.h): the mesh of each. `pipeline->mesh` has all ranks in a row
  /// then, and `assign` is about the first stage.
  std::vector<dist::Mesh> ownMeshes;
  /// How many places a pipeline's stages lie on. Requires `pipeline`.
  int64_t places() const { return ownMeshes.empty() ? pipeline->mesh.axisSize(0) : int64_t(ownMeshes.size()); }
  /// The mesh was given as a number of ranks, and the search chooses its axes.
  bool chooseMesh = false;
  /// The same, and whether there are stages and how many.
  bool chooseStages = false;
  /// What is known to fit takes so long: a program that takes no less need not be made to fit.
  strategies::Cost longEnough = strategies::kForbidden;
  /// The same of what is known to fit on this mesh, with something else computed again.
  strategies::Cost longEnoughHere = strategies::kForbidden;
  /// Strategies are searched once, and nothing is computed again that need not be: a program that does not fit so is
  /// given up (NotAtOnce).
  bool onlyOnce = false;
  /// What searches for the cuts of one mesh may still do.
  compiler::CutWork cutWork;

  /// From now on the mesh is this one. If its first axis has stages, they do what `pipelined` says. A memory limit that
  /// was not given becomes that of so many ranks.
  llvm::Error setMesh(dist::Mesh mesh, compiler::PipelineOptions pipelined);
  /// From now on each stage has one of these meshes.
  llvm::Error setOwnMeshes(std::vector<dist::Mesh> meshes, compiler::PipelineOptions pipelined);
  /// From now on a batch has so many micro-batches.
  void setMicroBatches(int64_t number);

  mlir::MLIRContext &context;
  /// How many runs may be beside each other.
  int threads() const;

  /// Runs the passes that `build` adds. A failure is one error, "WHERE: MESSAGES", without "WHERE: " if `where` is
  /// empty.
  llvm::Error passes(llvm::StringRef where, mlir::ModuleOp module, llvm::function_ref<void(mlir::PassManager &)> build);
  /// Writes a file of --dump-phases, if that option is given.
  llvm::Error dump(mlir::ModuleOp module, llvm::StringRef file) const;
  /// Tells the watch what begins; the text lives forever.
  void begins(const char *phase) const;
  /// Reports the time since the previous call as that of `phase`.
  void finished(llvm::StringRef phase);
  /// Whether someone has ended a search.
  bool stopped() const;
  /// After that, further searches are short.
  void hurry(strategies::AssignOptions &assign) const;
  void say(const std::string &line) const { progress_(line); }

private:
  /// An error if the user gives operators stages that there are not.
  llvm::Error checkGivenStages() const;

  strategies::Overlapping overlap_ = {}; // that was asked for
  const Progress &progress_;
  std::optional<mlir::ScopedDiagnosticHandler> handler_; // of the first run: says nothing
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace tessera

#endif
