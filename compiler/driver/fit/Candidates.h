//===- Candidates.h - the modules among which strategies are searched ------------------------------===//
//
// Strategies are chosen of a module in phase 2. Where they need too much memory, they are chosen of a copy of it in
// which copies of values may expire (docs/adr/0022-expiring-copies.md): first those of parameters, then those of
// activations, too. This header is private to the driver.
//
//   Candidates candidates(run, module);
//   if (*candidates.expire(/*activations=*/false)) ...  // candidates.module() is another one now
//   candidates.keep();                                  // it is the given one again
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FIT_CANDIDATES_H
#define TESSERA_COMPILER_DRIVER_FIT_CANDIDATES_H

#include "compiler/driver/Compilation.h"

#include "mlir/IR/OwningOpRef.h"

#include <array>

namespace tessera {

class Candidates {
public:
  Candidates(Compilation &run, mlir::ModuleOp module) : run_(run), module_(module) {}

  mlir::ModuleOp module() const { return taken_ ? *taken_->module : module_; }

  /// From now on copies of parameters may expire, and those of activations do, if asked. Returns whether that changes
  /// the module, of activations beyond what it changes for parameters.
  llvm::Expected<bool> expire(bool activations);
  /// From now on copies are kept, as in the given module.
  void keep() { taken_ = nullptr; }
  /// What is right for a saved assignment: copies expire as in the module that it is of.
  llvm::Error expireAsSaved(const strategies::UserStrategies &user);

private:
  struct Expired {
    mlir::OwningOpRef<mlir::ModuleOp> module; // made when it is needed
    int64_t operators = 0;
  };

  /// Whether the module has every view that is saved.
  bool hasViewsOf(const strategies::UserStrategies &user) const;

  Compilation &run_;
  mlir::ModuleOp module_;
  int64_t operators_ = 0;          // of module_
  std::array<Expired, 2> expired_; // of parameters, and of activations, too
  const Expired *taken_ = nullptr; // null: copies are kept
};

} // namespace tessera

#endif
