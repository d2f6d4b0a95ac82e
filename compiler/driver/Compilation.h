//===- Compilation.h - one run of the compiler ---------------------------------------------------===//
//
// What every phase needs: the options, with their texts read, and where passes run, speak and are timed. Private to
// the driver.
//
//   Compilation run(options, progress);
//   if (Error e = run.read()) ...
//   if (Error e = run.passes("partition", module, [](PassManager &passes) { ... })) ...
//   run.finished("partition");
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

  /// Checks the options (`chooses`: see checkOptions) and reads their files. Sets what follows.
  llvm::Error read(llvm::StringRef chooses = "");

  const CompileOptions &options;
  strategies::AssignOptions assign;
  std::optional<compiler::HybridOptions> hybrid;
  compiler::ImportOptions import;
  compiler::BuildTrainingPassOptions training; // all but gradientScale, which the imported module tells
  /// The mesh is a number of ranks: the search chooses how they are arranged.
  bool chooseMesh = false;

  mlir::MLIRContext context;

  /// Runs the passes that `build` adds. A failure is one error, "WHERE: what they said"; an empty `where` is left out.
  llvm::Error passes(llvm::StringRef where, mlir::ModuleOp module, llvm::function_ref<void(mlir::PassManager &)> build);
  /// Writes a file of --dump-phases, if it is asked for.
  llvm::Error dump(mlir::ModuleOp module, llvm::StringRef file) const;
  /// Tells the time since the last one.
  void finished(llvm::StringRef phase);
  void say(const std::string &line) const { progress_(line); }

private:
  const Progress &progress_;
  std::string said_; // by passes, as errors
  mlir::ScopedDiagnosticHandler handler_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace tessera

#endif
