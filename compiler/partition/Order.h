//===- Order.h - puts the operators of a function into another order -----------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_ORDER_H
#define TESSERA_COMPILER_PARTITION_ORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Moves every operator behind what it uses, otherwise keeping the order. The function has one block and no cycles.
void sortByDependence(mlir::func::FuncOp func);

/// Moves the operators into the order of their turns (graph::kTurnAttr), which are taken away, or else into that of
/// graph::executionOrder. In the latter, conversions of kept values to fewer bytes, such as the 16-bit copies of
/// parameters, come first if the program then needs no more memory. The members of a message stand behind each other.
void sortForExecution(mlir::func::FuncOp func);

} // namespace tessera::compiler

#endif
