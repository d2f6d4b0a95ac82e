//===- LayProgram.h - a function of a local module as a program of a layout ------------------------------------===//
//
//   SharedBuffers shared;
//   for (func::FuncOp func : local.getOps<func::FuncOp>())
//     if (Error e = layProgram(layout, shared, func)) ...   // adds a program, its buffers and its bindings
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_LAYPROGRAM_H
#define TESSERA_COMPILER_EMIT_LAYPROGRAM_H

#include "compiler/emit/PlanLayout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>
#include <utility>

namespace tessera::compiler {

/// What the programs of a layout have in common.
struct SharedBuffers {
  std::map<std::pair<const void *, const void *>, int> constants; // buffers by contents and type; looked up only
  std::map<std::string, int> persistent;                          // bindings by "role/name"
};

/// Adds `func`, which has one block, to the layout. An error names the program, and the argument, result or operator
/// that a plan cannot hold. Places in memory are not given yet.
llvm::Error layProgram(PlanLayout &layout, SharedBuffers &shared, mlir::func::FuncOp func);

} // namespace tessera::compiler

#endif
