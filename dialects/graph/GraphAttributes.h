//===- GraphAttributes.h - names that operators and results carry -------------------------------------===//
//
// Attributes and roles that one part of the compiler writes and another reads. They stand here once.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHATTRIBUTES_H
#define TESSERA_DIALECTS_GRAPH_GRAPHATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace tessera::graph {

/// A rounding whose gradient is the identity's: discardable, on operators of one operand whose result has its shape.
/// Training through a quantisation takes the derivative of its rounding, which is 0, for 1 (Bengio, Leonard and
/// Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013). The importer marks such an
/// operator; the gradient pass hands the result's adjoint on to its operand:
///
///   graph.round %x {graph.straight_through}      // dx = dy, instead of none
inline constexpr llvm::StringLiteral kStraightThroughAttr = "graph.straight_through";

/// An index that may count from the end, made one from the beginning: discardable, on a select whose last operand is
/// the index as it was, which stands wherever it is not negative.
inline constexpr llvm::StringLiteral kWrapsIndicesAttr = "graph.wraps_indices";

/// Arguments of the roles input and target: i64, the values are positions in something of so many entries. The pass
/// graph-index-limits finds it; the plan's field id_limit says it to the runtime.
inline constexpr llvm::StringLiteral kIdLimitAttr = "graph.id_limit";

/// Arguments of the role state that are scalars: the name under which the log of a training step shows them.
inline constexpr llvm::StringLiteral kLogAsAttr = "graph.log_as";

/// Arguments of the role parameter: unit, training never updates it and keeps no optimizer state for it.
inline constexpr llvm::StringLiteral kFrozenAttr = "graph.frozen";

/// Roles of results that only tell what a step did. They are scalars, one number on all ranks: the step's learning
/// rate, and the norm of all gradients before clipping.
inline constexpr llvm::StringLiteral kLearningRate = "learning_rate", kGradientNorm = "gradient_norm";

} // namespace tessera::graph

#endif
