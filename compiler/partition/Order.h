//===- Order.h - the order of a block ------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_ORDER_H
#define TESSERA_COMPILER_PARTITION_ORDER_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include <functional>

namespace tessera::compiler {

/// Moves every operator behind what it uses, otherwise keeping the order. The block has no cycles.
void sortByDependence(mlir::Block &block);

/// What `placed` calls for operators of which `eager` may now say something else.
using Reconsider = llvm::function_ref<void(mlir::Operation *)>;

/// The same with a choice: among the operators that are ready, the first for which `eager` says yes goes first, then
/// the first in the present order. `eager` is asked when an operator becomes ready and when `placed`, which is told
/// of every operator that was placed, has it reconsidered.
void sortByDependence(mlir::Block &block, llvm::function_ref<bool(mlir::Operation *)> eager,
                      llvm::function_ref<void(mlir::Operation *, Reconsider)> placed);

} // namespace tessera::compiler

#endif
