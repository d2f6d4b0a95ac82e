//===- MeshChoice.h - which logical mesh for so many ranks -------------------------------------------===//
//
// A number of ranks can be seen as one axis or as several: 8, 2x4, 4x2, 2x2x2, each with other groups that talk to
// each other. Every mesh is searched with an equal share of the effort, and the cheapest is taken.
//
//   sensibleMeshes(12, flat topology)       data=12 | x=2,y=6 | x=3,y=4 | x=2,y=2,z=3
//   sensibleMeshes(16, two machines of 8)   besides others x=2,y=8 and x=8,y=2: here the order matters
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_MESHCHOICE_H
#define TESSERA_STRATEGIES_MODES_MESHCHOICE_H

#include "strategies/modes/Assign.h"

namespace tessera::strategies {

/// Ordered factorisations in at most three axes, none of size 1. Of those whose axes have the same sizes and talk
/// over the same links, alone and together, only the first is listed: to the cost model they are equal.
std::vector<Mesh> sensibleMeshes(int64_t ranks, const Topology &topology);

struct MeshCandidate {
  Mesh mesh;
  Cost predicted = kForbidden; // of the first function (the training step)
  Cost communication = 0;
  int64_t peakBytes = 0; // estimate
  std::string error;     // empty: strategies were found
};

/// All sensible meshes for `options.mesh.numRanks()` ranks, the cheapest first; `options.mode` assigns. Fails with
/// the first mesh's error if none works. `module` is left as it is. Meshes are searched by the context's threads.
llvm::Expected<std::vector<MeshCandidate>> rankMeshes(mlir::ModuleOp module, const AssignOptions &options);

} // namespace tessera::strategies

#endif
