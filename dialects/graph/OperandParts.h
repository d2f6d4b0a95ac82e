//===- OperandParts.h - operands that are read as parts of larger tensors ------------------------------===//
//
// A fused projection leaves queries, keys and values side by side. Attention reads them there, and the slices between
// are no kernels:
//
//   %q = graph.slice %x {starts = [0, 0, 0, 0], limits = [8, 1024, 12, 64], .., graph.read_as_part}
//   %y = graph.attention %q, %k, %v {rows_first = true}
//     =>   attention x, x, x {operand_parts = [0, 12, 0, 64,  0, 12, 64, 64,  0, 12, 128, 64]} in the plan
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_OPERANDPARTS_H
#define TESSERA_DIALECTS_GRAPH_OPERANDPARTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::graph {

/// On a slice whose readers all read it as a part of its operand: discardable, unit. The result is no value of its own
/// (isView), and the operand lives as long as it does.
inline constexpr llvm::StringLiteral kReadAsPartAttr = "graph.read_as_part";

/// Marks the slices that need not be copied. A slice of a row that is made heads behind it is turned
/// into one of heads. No tensor lives longer for more bytes than the slices would take.
void markParts(mlir::func::FuncOp func);

/// What the operator's kernel is told of the parts that it reads (runtime/plan/OperandParts.h); nothing: it reads whole
/// tensors.
std::optional<llvm::SmallVector<int64_t>> operandParts(mlir::Operation *op);

} // namespace tessera::graph

#endif
