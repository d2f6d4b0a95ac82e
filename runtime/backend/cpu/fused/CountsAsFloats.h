//===- CountsAsFloats.h - compares classes in float32 ---------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_COUNTSASFLOATS_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_COUNTSASFLOATS_H

#include "runtime/backend/ExpressionCode.h"

namespace tessera::rt {

/// The same expression, in which an I64 iota that only comparisons for equality read is of F32, as is what it is
/// compared with. Twice as many of them are in a vector, and such a comparison has machine code (TileCode.h), which a
/// loss that picks the target's class needs. The iota stands first, so that it divides no machine code.
///
/// Only where F32 has every number of the iota, below 2^24. What it is compared with is rounded: a number beyond that
/// stays beyond it, so that the result is the same.
///
///   t = input I64; i = iota I64; h = eq t, i     ->     i = iota F32; u = cast t to F32; h = eq u, i
ExpressionCode withCountsAsFloats(const ExpressionCode &code);

} // namespace tessera::rt

#endif
