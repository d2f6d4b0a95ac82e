//===- FitMemory.h - one rank's program that fits its memory -------------------------------------===//
//
// What a rank needs is known when its arena is laid out (phase 6's first half). The search before it only counts
// tensors, so it may be asked again, for less. Private to the driver.
//
//   Expected<FittedProgram> fitted = fitMemory(run, module, assign);
//   if (!fitted && fitted.errorIsA<DoesNotFit>()) ...   // another program may
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FITMEMORY_H
#define TESSERA_COMPILER_DRIVER_FITMEMORY_H

#include "compiler/driver/Compilation.h"

#include "mlir/IR/OwningOpRef.h"

namespace tessera {

/// The failure that nothing was found within the limit.
class DoesNotFit : public llvm::ErrorInfo<DoesNotFit> {
public:
  static char ID;
  explicit DoesNotFit(std::string text) : text_(std::move(text)) {}
  void log(llvm::raw_ostream &out) const override { out << text_; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text_;
};

/// A program in phase 5, and how it came about.
struct FittedProgram {
  mlir::OwningOpRef<mlir::ModuleOp> local;
  std::string strategies; // as a file that --strategy reads; empty in mode hybrid
  strategies::AssignReport report;
  compiler::MemoryReport memory;
  std::string recompute = "none"; // as --recompute is written
};

/// Phases 3 to 5 of a module in phase 2, with strategies chosen again until it fits. `module` stays as it is.
llvm::Expected<FittedProgram> fitMemory(Compilation &run, mlir::ModuleOp module,
                                        const strategies::AssignOptions &assign);

/// The same, and what --recompute asks for; "auto": what fits and is predicted to take least.
llvm::Expected<FittedProgram> fitWithRecompute(Compilation &run, mlir::ModuleOp module,
                                               const strategies::AssignOptions &assign);

} // namespace tessera

#endif
