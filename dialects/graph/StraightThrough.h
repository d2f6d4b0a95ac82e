//===- StraightThrough.h - roundings whose gradient is the identity's ----------------------------------===//
//
// Training through a quantisation takes the derivative of its rounding, which is 0, for 1 (Bengio, Leonard and
// Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013). The importer marks such an
// operator, the gradient pass hands the result's adjoint on to its operand:
//
//   graph.round %x {graph.straight_through}      // dx = dy, instead of none
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_STRAIGHTTHROUGH_H
#define TESSERA_DIALECTS_GRAPH_STRAIGHTTHROUGH_H

#include "llvm/ADT/StringRef.h"

namespace tessera::graph {

/// Discardable, on operators of one operand whose result has its shape.
inline constexpr llvm::StringLiteral kStraightThroughAttr = "graph.straight_through";

} // namespace tessera::graph

#endif
