//===- LocalProgram.h - what a program of phase 5 carries -------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_LOCALPROGRAM_H
#define TESSERA_COMPILER_PARTITION_LOCALPROGRAM_H

#include "llvm/ADT/StringRef.h"

namespace tessera::compiler {

/// On an operator: an array with one dictionary per rank, attributes of the kernel that differ
/// between ranks (offsets of a shard); they replace those of equal name.
inline constexpr llvm::StringLiteral kPerRankAttr = "dist.per_rank";

} // namespace tessera::compiler

#endif
