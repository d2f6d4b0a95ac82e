//===- GraphOrigin.h - where an operator comes from ----------------------------------------------------===//
//
// Attributes that say for which purpose an operator was made, beside its name. They do not change what it computes. A
// pass copies them to the operators by which it replaces one, and ignores them where it compares operators.
//
//   %y = graph.matmul %x, %w {graph.name = "micro1/fc1", graph.micro_batch = 1 : i64}
//   nodeNameOf(y) == "fc1"       // in the model file, in every micro-batch
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHORIGIN_H
#define TESSERA_DIALECTS_GRAPH_GRAPHORIGIN_H

#include "dialects/graph/Graph.h"

namespace tessera::graph {

/// The number of the micro-batch for which the operator computes; absent: 0, or a program without micro-batches.
inline constexpr llvm::StringLiteral kMicroBatchAttr = "graph.micro_batch";

/// The name of the parameter for which the operator computes a new value, its own or that of its optimizer state.
inline constexpr llvm::StringLiteral kUpdateOfAttr = "graph.update_of";

inline constexpr llvm::StringLiteral kOriginAttrs[] = {kGradOfAttr, kUpdateOfAttr, kMicroBatchAttr};

/// Copies the attributes of this header, and graph.grad_of, from `from` to `to`. Names are not copied.
void copyOrigin(mlir::Operation *from, mlir::Operation *to);

/// The prefix of the names of a micro-batch's operators: "micro1/"; empty for number 0.
std::string microBatchPrefix(int64_t number);
/// The values of graph.grad_of and graph.update_of; empty if the operator does not carry them.
llvm::StringRef gradientOf(mlir::Operation *op);
llvm::StringRef parameterUpdatedBy(mlir::Operation *op);
/// nameOf without the prefix of the micro-batch.
std::string nodeNameOf(mlir::Operation *op);

} // namespace tessera::graph

#endif
