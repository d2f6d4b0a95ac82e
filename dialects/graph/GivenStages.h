//===- GivenStages.h - the stages of a pipeline that a model file gives -------------------------------===//
//
// In mode hybrid the file marks where its stages meet (docs/hybrid.md). The importer makes two reshapes of a Send and
// the Recv that reads it, each to the shape that its operand has. The pass graph-read-stages replaces them:
//
//   %s = graph.reshape %h {graph.sends_to = 1}            %h = graph.matmul ... {graph.given_stage = 0}
//   %r = graph.reshape %s {graph.receives_from = 0}  ->
//   %y = graph.matmul %r, %w                              %y = graph.matmul %h, %w {graph.given_stage = 1}
//
// All are discardable and i64. Stages are counted from 0, in the order in which the data passes.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GIVENSTAGES_H
#define TESSERA_DIALECTS_GRAPH_GIVENSTAGES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace tessera::graph {

inline constexpr llvm::StringLiteral kSendsToAttr = "graph.sends_to";
inline constexpr llvm::StringLiteral kReceivesFromAttr = "graph.receives_from";
/// The stage in which the operator is to run. It is a part of where an operator comes from (GraphOrigin.h).
inline constexpr llvm::StringLiteral kGivenStageAttr = "graph.given_stage";

/// The number that one of these attributes has.
inline std::optional<int64_t> stageIn(mlir::Operation *op, llvm::StringRef attribute) {
  auto number = op->getAttrOfType<mlir::IntegerAttr>(attribute);
  return number ? std::optional(number.getInt()) : std::nullopt;
}

} // namespace tessera::graph

#endif
