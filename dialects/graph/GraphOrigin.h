//===- GraphOrigin.h - where an operator comes from ----------------------------------------------------===//
//
// Attributes that say for what an operator was made, beside its name. They do not change what it computes: a pass hands
// them on to what it makes of the operator, and leaves them out where it compares operators.
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

/// The name of the parameter whose new value, or whose optimizer's, the operator computes.
inline constexpr llvm::StringLiteral kUpdateOfAttr = "graph.update_of";

inline constexpr llvm::StringLiteral kOriginAttrs[] = {kGradOfAttr, kUpdateOfAttr, kMicroBatchAttr};

/// Where `from` comes from, `to` comes from as well. Names are not copied.
void copyOrigin(mlir::Operation *from, mlir::Operation *to);

/// What the names of a micro-batch's operators begin with: "micro1/"; nothing for number 0.
std::string microBatchPrefix(int64_t number);
/// The values of graph.grad_of and graph.update_of; empty: the operator is neither's.
llvm::StringRef gradientOf(mlir::Operation *op);
llvm::StringRef parameterUpdatedBy(mlir::Operation *op);
/// nameOf, without what tells micro-batches apart.
std::string nodeNameOf(mlir::Operation *op);

} // namespace tessera::graph

#endif
