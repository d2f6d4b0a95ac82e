//===- Compiler.h - the compiler behind Pipeline.h, one per run -------------------------------------===//
//
// Pipeline.cpp has the phases and writes the output, Place.cpp chooses strategies as often as it takes to fit
// the memory, Clusters.cpp predicts other machines.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_COMPILER_H
#define TESSERA_COMPILER_DRIVER_COMPILER_H

#include "compiler/driver/Driver.h"
#include "compiler/driver/RecomputeTrials.h"

#include "compiler/partition/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <chrono>

namespace tessera {

using namespace mlir;
using compiler::MemoryReport;
using strategies::AssignReport;
using strategies::bytesText;

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
    return llvm::createStringError("%s: %s", where.c_str(), text_.empty() ? "failed" : text_.c_str());
  }

private:
  std::string text_;
  ScopedDiagnosticHandler handler_;
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
  llvm::Error runPasses(ModuleOp module, const std::string &where, llvm::function_ref<void(PassManager &)> build);
  llvm::Error partition(ModuleOp module, bool fuse, bool dumpPhases, const strategies::CostModel &model);
  /// A program of one rank that fits, or not.
  struct Placed {
    OwningOpRef<ModuleOp> local;
    std::string strategies;
    bool tooLarge = false; // the error is that nothing fits the limit
  };
  /// Phases 3 to 5, as often as it takes to fit.
  llvm::Error place(ModuleOp module, strategies::AssignOptions assign, const compiler::EmitOptions &emit,
                    CompileResult &result, Placed &placed);
  llvm::Error placeWith(const Recomputed &again, ModuleOp module, const strategies::AssignOptions &assign,
                        const compiler::EmitOptions &emit, CompileResult &result, Placed &placed);
  /// What --recompute asks for; "auto": what fits and is predicted to take least.
  llvm::Error placeBest(ModuleOp module, const strategies::AssignOptions &assign, const compiler::EmitOptions &emit,
                        CompileResult &result, Placed &placed);
  /// Of the first function, were there no limit of memory.
  llvm::Expected<strategies::Cost> predictUnlimited(ModuleOp module, strategies::AssignOptions assign);
  std::function<double(Operation *)> timeOnOneRank(const strategies::AssignOptions &assign) const;
  /// From phase 2 to phase 5 of a program that is one rank's.
  llvm::Error placeHybrid(ModuleOp module, const compiler::EmitOptions &emit, CompileResult &result, Placed &placed);
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

} // namespace tessera

#endif
