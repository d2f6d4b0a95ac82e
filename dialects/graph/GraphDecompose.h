//===- GraphDecompose.h - operators with statistics as primitives --------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHDECOMPOSE_H
#define TESSERA_DIALECTS_GRAPH_GRAPHDECOMPOSE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

namespace tessera::graph {

/// Whether decomposeStatistics can write it in parts: softmax and its gradient, which a device runs as loops along
/// rows.
bool hasStatistics(mlir::Operation *op);

/// Writes an operator whose rule has `stat` factors as reductions (which keep their dimensions) and elementwise
/// operators, at the builder's insertion point:
///
///   softmax(x)  ->  m = reduce_max(x), s = x - m, e = exp(s), z = reduce_sum(e), e / z
///
/// Returns the value that replaces the operator's result. For any other operator it returns null and builds nothing.
mlir::Value decomposeStatistics(mlir::Operation *op, mlir::OpBuilder &builder);

} // namespace tessera::graph

#endif
