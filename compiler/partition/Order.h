//===- Order.h - the order of a block ------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_ORDER_H
#define TESSERA_COMPILER_PARTITION_ORDER_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include <functional>

namespace tessera::compiler {

/// Moves every operator behind what it uses, otherwise keeping the order. The block has no cycles.
void sortByDependence(mlir::Block &block);

/// The same with a choice: among the operators that are ready, one for which `eager` says yes goes first (it
/// is asked again whenever something was placed), then the first in the present order. `placed` is told.
void sortByDependence(mlir::Block &block, llvm::function_ref<bool(mlir::Operation *)> eager,
                      llvm::function_ref<void(mlir::Operation *)> placed);

} // namespace tessera::compiler

#endif
