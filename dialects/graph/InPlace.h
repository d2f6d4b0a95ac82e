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

/// A leaf of a tensor, or all of them, read where they lie: discardable, unit, on a slice whose result is one piece of
/// the operand's bytes in row-major order, or on a reshape that makes two dimensions of one. The result is no value of
/// its own (isView), and the operand lives as long as it does:
///
///   %x1 = graph.slice %x {starts = [2, 0], limits = [4, 8], strides = [1, 1], graph.in_place}      // rows 2 and 3
inline constexpr llvm::StringLiteral kInPlaceAttr = "graph.in_place";

/// How many elements of a view's operand lie before the view.
int64_t viewStart(mlir::Operation *op);

/// The results of a plain reduction of each of `parts` equal ranges of dimension `dim`, over which it reduces: one
/// kernel on the whole operand `x`. They have the type of `op`'s result. New operators get `name`.
///
///   op = reduce_sum x {dims = [1]}, x [8, 6], dim 1 in 3 parts
///     ->   reduce_sum (reshape x to [8, 3, 2]) {dims = [2]}, and its columns 0, 1 and 2
llvm::SmallVector<mlir::Value> reduceParts(mlir::OpBuilder &builder, mlir::Operation *op, mlir::Value x, int64_t dim,
                                           int64_t parts, llvm::StringRef name);

} // namespace tessera::graph

#endif
