//===- PlanWriter.h - a skeleton as one rank's message -------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_PLANWRITER_H
#define TESSERA_COMPILER_EMIT_PLANWRITER_H

#include "compiler/emit/Plans.h"
#include "compiler/emit/Skeleton.h"

#include "dialects/graph/Graph.h"

namespace tessera::compiler {

llvm::Expected<plan::Plan> writePlan(const Skeleton &skeleton, const EmitOptions &options,
                                     int64_t rank);

/// The plan's word for an element type.
plan::DType planTypeOf(mlir::Type element);

/// A splat as a double; nullopt: it is none, or an integer that a double cannot hold.
std::optional<double> splatNumber(mlir::DenseElementsAttr attr);

/// Attributes as the plan has them, sorted, without those that only the compiler reads (whose names
/// have a dialect's prefix); dist.per_rank of `rank` replaces those of equal name.
llvm::Error writeAttributes(mlir::Operation *op, int64_t rank,
                            google::protobuf::RepeatedPtrField<plan::Attribute> *attributes);

/// The expression of graph.fused for one rank.
llvm::Error writeExpression(graph::FusedOp op, int64_t rank, plan::Expression *expression);

} // namespace tessera::compiler

#endif
