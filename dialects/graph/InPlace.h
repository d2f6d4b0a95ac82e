//===- InPlace.h - leaves that are read where they lie ------------------------------------------------===//
//
// What an operator with leaves (dialects/dist/leaves/LeafRule.h) reads is not copied where that can be helped.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_INPLACE_H
#define TESSERA_DIALECTS_GRAPH_INPLACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

namespace tessera::graph {

/// A leaf of a tensor, read where it lies: discardable, unit, on a slice whose result is one piece of the operand's
/// bytes in row-major order. The result is no value of its own (isView), and the operand lives as long as it does:
///
///   %x1 = graph.slice %x {starts = [2, 0], limits = [4, 8], strides = [1, 1], graph.in_place}      // rows 2 and 3
inline constexpr llvm::StringLiteral kInPlaceAttr = "graph.in_place";

/// How many elements of a view's operand lie before the view.
int64_t viewStart(mlir::Operation *op);

/// Leaf `leaf` of `leaves` equal ranges of dimension `dim`: in place where it is one piece of memory, else a copy.
mlir::Value sliceLeaf(mlir::OpBuilder &builder, mlir::Value x, int64_t dim, int64_t leaves, int64_t leaf,
                      llvm::StringRef name);

/// The results of a plain sum of each of `leaves` equal ranges of dimension `dim`, over which it sums. They have the
/// type of `op`'s result. New operators get `name`.
///
///   op = reduce_sum x {dims = [1]}, x [8, 6], dim 1 in 3 leaves
///     ->   leaf_sums x {dims = [1], dim = 1, leaves = 3}, which is [8, 3], and its columns 0, 1 and 2
llvm::SmallVector<mlir::Value> sumLeaves(mlir::OpBuilder &builder, mlir::Operation *op, mlir::Value x, int64_t dim,
                                         int64_t leaves, llvm::StringRef name);

} // namespace tessera::graph

#endif
