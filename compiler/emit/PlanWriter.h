//===- PlanWriter.h - a layout as one rank's message -------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_PLANWRITER_H
#define TESSERA_COMPILER_EMIT_PLANWRITER_H

#include "compiler/emit/PlanLayout.h"
#include "compiler/emit/Plans.h"

#include "dialects/graph/Graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace tessera::compiler {

/// Writes the plans of one rank after the other into one message. What does not depend on the rank is
/// written with the first.
class PlanWriter {
public:
  PlanWriter(const PlanLayout &layout, const EmitOptions &options);
  ~PlanWriter();
  /// The plan of `rank`, until the next call.
  llvm::Expected<const plan::Plan *> write(int64_t rank);

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Which rank is written for; asked only where something depends on it.
using RankFunction = llvm::function_ref<int64_t()>;

/// The plan's word for an element type.
plan::DType planTypeOf(mlir::Type element);

/// A splat as a double; nullopt: it is none, or an integer that a double cannot hold.
std::optional<double> splatNumber(mlir::DenseElementsAttr attr);

/// Attributes as the plan has them, sorted, without those that only the compiler reads (whose names
/// have a dialect's prefix); dist.per_rank of `rank` replaces those of equal name.
llvm::Error writeAttributes(mlir::Operation *op, RankFunction rank,
                            google::protobuf::RepeatedPtrField<plan::Attribute> *attributes);

/// The expression of graph.fused for one rank.
llvm::Error writeExpression(graph::FusedOp op, RankFunction rank, plan::Expression *expression);

} // namespace tessera::compiler

#endif
