//===- GraphOrigin.h - where an operator comes from ----------------------------------------------------===//
//
// Attributes that say for which purpose an operator was made, beside its name. They do not change what it computes. A
// pass copies them to the operators by which it replaces one, and ignores them where it compares operators.
//
//   %dw = graph.matmul %x, %dy {graph.name = "fc1.grad_b", graph.grad_of = "fc1"}
//   gradientOf(dw) == "fc1"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHORIGIN_H
#define TESSERA_DIALECTS_GRAPH_GRAPHORIGIN_H

#include "dialects/graph/GivenStages.h"
#include "dialects/graph/Graph.h"

namespace tessera::graph {

/// The name of the parameter for which the operator computes a new value, its own or that of its optimizer state.
inline constexpr llvm::StringLiteral kUpdateOfAttr = "graph.update_of";

inline constexpr llvm::StringLiteral kOriginAttrs[] = {kGradOfAttr, kUpdateOfAttr, kGivenStageAttr};

/// Copies the attributes of kOriginAttrs from `from` to `to`. Names are not copied.
void copyOrigin(mlir::Operation *from, mlir::Operation *to);

/// The values of graph.grad_of and graph.update_of; empty if the operator does not carry them.
llvm::StringRef gradientOf(mlir::Operation *op);
llvm::StringRef parameterUpdatedBy(mlir::Operation *op);

} // namespace tessera::graph

#endif
