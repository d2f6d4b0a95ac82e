//===- FitMemory.h - strategies whose program fits the memory of a rank ----------------------------===//
//
// The memory of a rank is known when its arena is laid out, at the start of phase 6. The search before it counts
// tensors only. So if the arena is too large, the search runs again with a smaller limit. This header is private to the
// driver.
//
//   Expected<FittedProgram> fitted = fitMemory(run, module, assign);
//   if (!fitted && fitted.errorIsA<DoesNotFit>()) ...   // another program may
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FIT_FITMEMORY_H
#define TESSERA_COMPILER_DRIVER_FIT_FITMEMORY_H

#include "compiler/driver/Compilation.h"

#include "mlir/IR/OwningOpRef.h"

namespace tessera {

/// The error that no program within the limit was found.
class DoesNotFit : public llvm::ErrorInfo<DoesNotFit> {
public:
  static char ID;
  explicit DoesNotFit(std::string text) : text_(std::move(text)) {}
  void log(llvm::raw_ostream &out) const override { out << text_; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text_;
};

/// The error that a program needs too much memory, and takes no less time than one that is known to fit: in the memory
/// that there is, or whatever is computed again to spare memory.
class NoBetter : public llvm::ErrorInfo<NoBetter> {
public:
  static char ID;
  explicit NoBetter(bool inAnyMemory = false) : inAnyMemory(inAnyMemory) {}
  const bool inAnyMemory;
  void log(llvm::raw_ostream &out) const override { out << "takes no less than the best"; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
};

/// A program in phase 5, with the strategies and the recomputation that were chosen for it.
struct FittedProgram {
  mlir::OwningOpRef<mlir::ModuleOp> local;
  std::string strategies; // the text of a file that --strategy reads; empty in mode hybrid
  strategies::AssignReport report;
  std::optional<compiler::PipelineReport> pipeline; // of a mesh with stages; `local` has a module per stage
  compiler::MemoryReport memory;
  compiler::CutWork cutWork;                 // that was left when it was found
  strategies::JoinOptions join;              // how its collectives are sent
  std::vector<compiler::ProgramTimes> times; // empty for a mesh with stages
  std::string recompute = "none";            // in the form of --recompute
};

/// The error that a program needs too much memory with the strategies that were found first, where no others are asked
/// for.
class NotAtOnce : public llvm::ErrorInfo<NotAtOnce> {
public:
  static char ID;
  explicit NotAtOnce(FittedProgram found);
  void log(llvm::raw_ostream &out) const override { out << "does not fit with the strategies that take least"; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  FittedProgram found; // with these strategies, without `local`
  strategies::Cost predicted() const;
};

/// The error that a program which was laid out needs more than the limit, with what may help.
llvm::Error overLimit(const Compilation &run, const FittedProgram &fitted, int64_t limit);

/// Runs phases 3 to 5 on a copy of a module in phase 2, and chooses strategies again until the program fits. `first`:
/// what NotAtOnce found of the same module, which is not searched again.
llvm::Expected<FittedProgram> fitMemory(Compilation &run, mlir::ModuleOp module,
                                        const strategies::AssignOptions &assign,
                                        std::optional<FittedProgram> first = std::nullopt);

/// Phase 3 only: strategies and what the report predicts, without a local program and its layout. Strategies are chosen
/// again until the predicted peak fits.
llvm::Expected<FittedProgram> chooseOnly(Compilation &run, mlir::ModuleOp module,
                                         const strategies::AssignOptions &assign,
                                         std::optional<FittedProgram> first = std::nullopt);

/// One of the two above, or a function that promises less, as of --what-if.
using FitProgram = llvm::Expected<FittedProgram> (*)(Compilation &, mlir::ModuleOp, const strategies::AssignOptions &,
                                                     std::optional<FittedProgram>);

/// `fit`, with the recomputation of --recompute. "auto" chooses, of those that fit, the one that is predicted to take
/// the least time. `once`: what was found under Compilation::onlyOnce, whether it fits or not.
llvm::Expected<FittedProgram> fitWithRecompute(Compilation &run, mlir::ModuleOp module,
                                               const strategies::AssignOptions &assign, FitProgram fit,
                                               std::optional<FittedProgram> once = std::nullopt);

} // namespace tessera

#endif
