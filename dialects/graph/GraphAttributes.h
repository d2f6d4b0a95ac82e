//===- GraphAttributes.h - names that operators and results carry -------------------------------------===//
//
// Attributes and roles that one part of the compiler writes and another reads.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHATTRIBUTES_H
#define TESSERA_DIALECTS_GRAPH_GRAPHATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace tessera::graph {

/// Marks a rounding whose gradient is taken to be the identity's. Discardable, on operators of one operand whose result
/// has the operand's shape. The derivative of a rounding is 0, which would stop training through a quantisation; the
/// straight-through estimator uses 1 instead (Bengio, Leonard and Courville, "Estimating or Propagating Gradients
/// Through Stochastic Neurons", 2013). The importer marks such an operator, and the gradient pass hands the adjoint of
/// its result on to its operand:
///
///   graph.round %x {graph.straight_through}      // dx = dy, instead of none
inline constexpr llvm::StringLiteral kStraightThroughAttr = "graph.straight_through";

/// A value that counts as a constant in training, as PyTorch's Tensor.detach() makes one: discardable, unit, on a
/// reshape to the shape that its operand has. The gradient pass hands nothing on to the operand:
///
///   graph.reshape %x {graph.stops_gradient}      // dx = 0, instead of dy
inline constexpr llvm::StringLiteral kStopsGradientAttr = "graph.stops_gradient";

/// A value whose copy in another sharding may be kept for all its readers: discardable, unit, on a reshape to the shape
/// that its operand has. A strategy may hand the result on in another sharding than it takes the operand, and readers
/// find the copy at hand as long as the result lives. The pass graph-expire-copies makes such operators:
///
///   %k = graph.reshape %w {graph.keeps_copy}
inline constexpr llvm::StringLiteral kKeepsCopyAttr = "graph.keeps_copy";

/// A value for some of its readers: discardable, i64, the number of micro-batches, on a reshape to the shape that its
/// operand has. What is resharded for these readers is not shared with others, so it lives no longer than they need it.
/// With several micro-batches it is made for each.
///
///   %f = graph.reshape %k {graph.anew = 4 : i64}      // for the readers of the forward half
inline constexpr llvm::StringLiteral kAnewAttr = "graph.anew";

/// A sum whose terms may be sent in fewer bits: discardable, a string (dist::Wire), on a reshape to the shape that its
/// operand, a sum of float32 numbers over ranks, has. Nothing else reads the operand. The reshape is not linear, so the
/// sum is finished before it. A dist.reshard that finishes it carries the attribute, too. On one device it does
/// nothing:
///
///   %s = graph.reshape %g {graph.sent_as = "bf16"}
inline constexpr llvm::StringLiteral kSentAsAttr = "graph.sent_as";

/// An index that may count from the end, made one from the beginning: discardable, on a select whose last operand is
/// the index as it was, which stands wherever it is not negative.
inline constexpr llvm::StringLiteral kWrapsIndicesAttr = "graph.wraps_indices";

/// A conversion to 16 bits that rounds inside of a loop, too, where a value otherwise keeps its digits until it is
/// stored: discardable, unit, on a cast. The pass graph-round-products marks such conversions in the whole program, so
/// that every mesh rounds at the same places.
inline constexpr llvm::StringLiteral kRoundsAttr = "graph.rounds";

/// On arguments of the roles input and target: an i64 limit. The argument's values are indices from 0 to below the
/// limit. The pass graph-index-limits computes it, and the plan's field id_limit hands it to the runtime.
inline constexpr llvm::StringLiteral kIdLimitAttr = "graph.id_limit";

/// On scalar arguments of the role state: the name under which the log of a training step shows the value.
inline constexpr llvm::StringLiteral kLogAsAttr = "graph.log_as";

/// On arguments of the role parameter, a unit attribute: training never updates the parameter and keeps no optimizer
/// state for it.
inline constexpr llvm::StringLiteral kFrozenAttr = "graph.frozen";

/// In a pipeline: on a rank's function the number of micro-batches (i64) and, if it has several stages, of its chunks;
/// on its operators the section (Sections.h): begin, forward, input, weight or end, or "forward 1" of chunk 1.
inline constexpr llvm::StringLiteral kMicroBatchesAttr = "graph.micro_batches", kChunksAttr = "graph.chunks",
                                     kSectionAttr = "graph.section";

/// In a stage of a pipeline, on arguments of the role input and on outputs: the place among all of the whole program's
/// (i64).
inline constexpr llvm::StringLiteral kOrdinalAttr = "graph.ordinal";

/// Roles of results that only report on a step: its learning rate, and the norm of all gradients before clipping. They
/// are scalars, equal on all ranks.
inline constexpr llvm::StringLiteral kLearningRate = "learning_rate", kGradientNorm = "gradient_norm";

} // namespace tessera::graph

#endif
