//===- LoopChains.h - loops that read each other's results --------------------------------------------===//
//
// A backend may run loops that wait for each other along the same rows as one kernel (a normalisation is such a chain),
// unless one of them writes where an earlier one has read:
//
//   steps: 0 loop x -> s · 1 loop s -> m · 2 loop z, m -> y     chainEnds = {2, 2, 2}: y should not lie where x was
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_LOOPCHAINS_H
#define TESSERA_COMPILER_EMIT_LOOPCHAINS_H

#include "compiler/emit/PlanLayout.h"

#include <cstddef>
#include <vector>

namespace tessera::compiler {

/// For each step the last loop that follows from it through loops alone, within its section; itself if it is no loop.
std::vector<size_t> chainEnds(const PlanLayout &layout, const LayoutProgram &program);

} // namespace tessera::compiler

#endif
