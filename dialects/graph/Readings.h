//===- Readings.h - roles of results that only tell what a step did ---------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_READINGS_H
#define TESSERA_DIALECTS_GRAPH_READINGS_H

#include "llvm/ADT/StringRef.h"

namespace tessera::graph {

/// Scalars that are one number on all ranks: the step's learning rate, and the norm of all gradients before clipping.
inline constexpr llvm::StringLiteral kLearningRate = "learning_rate",
                                     kGradientNorm = "gradient_norm";

} // namespace tessera::graph

#endif
