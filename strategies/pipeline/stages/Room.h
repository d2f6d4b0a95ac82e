//===- Room.h - whether all stages together have room ----------------------------------------------===//
//
// A search that finds nothing that fits has looked at every cut. Often a sum says it at once: a stage with k behind it
// holds k + 1 micro-batches, so of its limit L there is room for (L - fixed) / (k + 1) bytes of one micro-batch. What
// is fixed takes least away where a stage holds most micro-batches:
//
//   hasRoom(problem)      // false: no plan fits, whatever the cuts
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_ROOM_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_ROOM_H

#include "strategies/pipeline/stages/StageProblem.h"

namespace tessera::strategies {

/// False proves that nothing fits. True says nothing. Requires a problem that passes checkStageProblem.
bool hasRoom(const StageProblem &problem);

} // namespace tessera::strategies

#endif
