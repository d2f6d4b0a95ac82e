//===- Complete.h - a per-rank program from import to phase 5 ---------------------------------------===//
//
// In mode hybrid the model file is the program of one rank. It has local types and contains its collectives
// (docs/hybrid.md), so it needs no strategies and no resharding. Two functions add what is missing:
//
//   annotate   runs after import. It gives every argument its sharding (dist.sharding), and makes random numbers differ
//              between ranks where the data that they are combined with differ.
//   complete   runs after buildTraining. It combines loss and counts over all ranks, makes running statistics equal,
//              and gives arguments and results their shardings and global shapes. Then the module is in phase 5.
//
// An error names the input, output or parameter of the model file that does not fit.
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
