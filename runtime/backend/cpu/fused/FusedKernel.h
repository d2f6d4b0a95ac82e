//===- FusedKernel.h - runs tapes --------------------------------------------------------------------------===//
//
// The engine for "fused", the elementwise operators, broadcast and reductions in F32 (and BOOL) on any
// common layout. Rows are cut in tiles of a few thousand elements so that intermediate values stay in the
// first-level cache; every operand is read once from memory and every result written once.
//
// Reductions are deterministic and do not depend on the number of threads: the work is cut in chunks whose
// number follows from the shapes alone; each chunk sums its tiles in order (F32 within a tile, F64 beyond),
// and the chunks are added in order. In a reproducible plan they depend on their terms alone (OrderedSums.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_FUSEDKERNEL_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_FUSEDKERNEL_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// Returns null for a call that buildTape does not support.
BindResult bindFusedKernel(const KernelCall &call);

/// Adds the engine to the list of every expression kernel.
void registerFusedKernels(KernelRegistry &registry);

} // namespace tessera::rt

#endif
