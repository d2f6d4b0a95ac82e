//===- Repeats.h - operators that every loop computes for itself ------------------------------------------===//
//
// An elementwise operator with this attribute counts as free (Fusion.h): a loop that reads its result computes it from
// its operands, and the result is in memory only if something else than a loop reads it. The pass graph-repeat sets it
// where that costs less than to read the result.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_REPEATS_H
#define TESSERA_DIALECTS_GRAPH_REPEATS_H

#include "llvm/ADT/StringRef.h"

namespace tessera::graph {

inline constexpr llvm::StringLiteral kRepeatsAttr = "graph.repeats";

} // namespace tessera::graph

#endif
