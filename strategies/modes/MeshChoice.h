//===- MeshChoice.h - the choice of a mesh for a number of ranks -------------------------------------===//
//
// A number of ranks can be arranged in one axis or in several: 8, 2x4, 4x2, 2x2x2. Each arrangement has other groups of
// ranks. Every mesh is searched, two with the whole effort and more with an equal share of it, and the cheapest one is
// taken.
//
//   sensibleMeshes(12, flat topology)       data=12 | x=2,y=6 | x=3,y=4 | x=2,y=2,z=3
//   sensibleMeshes(16, two machines of 8)   besides others x=2,y=8 and x=8,y=2: here the order matters
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_MESHCHOICE_H
#define TESSERA_STRATEGIES_MODES_MESHCHOICE_H

#include "strategies/modes/Assign.h"

namespace tessera::strategies {

/// All ordered factorisations of `ranks` into at most three axes longer than 1. The cost model cannot tell meshes apart
/// whose axes have the same sizes and use the same links, alone and together; only the first of these is listed.
std::vector<Mesh> sensibleMeshes(int64_t ranks, const Topology &topology);

struct MeshCandidate {
  Mesh mesh;
  Cost predicted = kForbidden; // time of the first function (the training step)
  Cost communication = 0;
  int64_t peakBytes = 0; // estimate
  double work = 0;       // of the search, in 1e9 steps
  std::string error;     // empty: strategies were found
  /// With which the search goes on on the mesh that is taken; null of all others.
  std::shared_ptr<Prices> prices;
  std::shared_ptr<KnownAnswer> known; // the same: AssignOptions::known
};

/// All sensible meshes for `options.mesh.numRanks()` ranks, the cheapest first. `options.mode` assigns strategies on
/// each, in a copy of `module`, on the context's threads. `options.watch` is told how many are done. Fails with the
/// first mesh's error if none has strategies.
llvm::Expected<std::vector<MeshCandidate>> rankMeshes(mlir::ModuleOp module, const AssignOptions &options);

} // namespace tessera::strategies

#endif
