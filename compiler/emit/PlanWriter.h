//===- PlanWriter.h - a layout as one rank's message -------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_PLANWRITER_H
#define TESSERA_COMPILER_EMIT_PLANWRITER_H

#include "compiler/emit/PlanLayout.h"
#include "compiler/emit/Plans.h"

#include "dialects/graph/Graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace tessera::compiler {

/// Writes the plans of the ranks into one message, one rank after the other. The parts that do not depend on the rank
/// are written only once.
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

/// Returns the rank of the plan. It is called only where the plan depends on the rank.
using RankFunction = llvm::function_ref<int64_t()>;

/// The plan's enumerator for an element type.
plan::DType planTypeOf(mlir::Type element);

/// The number that a splat holds, unrounded where the constant says it. nullopt: it is no splat, or an integer that a
/// double cannot represent.
std::optional<double> splatNumber(graph::ConstantOp constant);

/// Writes the operator's attributes to the plan, sorted by name. Attributes that only the compiler reads are left out;
/// their names have a dialect's prefix. The entry of `rank` in dist.per_rank replaces attributes of the same name.
llvm::Error writeAttributes(mlir::Operation *op, RankFunction rank,
                            google::protobuf::RepeatedPtrField<plan::Attribute> *attributes);

/// The expression of a loop (graph::isLoop) for one rank.
llvm::Error writeExpression(mlir::Operation *op, RankFunction rank, plan::Expression *expression);

} // namespace tessera::compiler

#endif
