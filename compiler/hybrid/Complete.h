//===- Complete.h - a per-rank program from import to phase 5 ---------------------------------------===//
//
// A program that is one rank's has local types and its own collectives from the start (docs/hybrid.md): it needs no
// strategies and no resharding, only what ties it to the outside.
//
//   annotate   after import: how every argument is cut (dist.sharding), and random numbers that differ between
//              ranks where the data that they meet differ
//   complete   after buildTraining: loss and counts over all ranks, one value for every running statistic, how the
//              results are cut, whole shapes; then the module is in phase 5 ("local")
//
// Both say in one error what does not fit, by the names of the model file.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_HYBRID_COMPLETE_H
#define TESSERA_COMPILER_HYBRID_COMPLETE_H

#include "compiler/hybrid/HybridOptions.h"

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler {

llvm::Error annotate(mlir::ModuleOp module, const HybridOptions &options);
llvm::Error complete(mlir::ModuleOp module, const HybridOptions &options);

} // namespace tessera::compiler

#endif
