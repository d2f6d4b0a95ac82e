//===- Unused.h - operators that nothing reads ------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_UNUSED_H
#define TESSERA_DIALECTS_GRAPH_UNUSED_H

#include "mlir/IR/Block.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::graph {

/// Erases the operators of a block whose results nothing reads and that do nothing else, such as a message: from the
/// last on, so that those go with them that only they read.
inline void eraseUnused(mlir::Block &block) {
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (mlir::isOpTriviallyDead(&op))
      op.erase();
}

} // namespace tessera::graph

#endif
