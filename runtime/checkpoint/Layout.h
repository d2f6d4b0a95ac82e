//===- Layout.h - which rank writes what into which file --------------------------------------===//
//
// A share is one block of a tensor and the rank that writes it. Of several ranks that hold the same block, one writes
// it, chosen so that all ranks write about the same amount.
//
//   std::vector<Share> shares = sharesOf(tensors);
//   Manifest manifest = describe(tensors, shares, /*integrated=*/false, types);
//   // rank0.safetensors, rank1.safetensors, ...: each holds the shares that its rank writes
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_LAYOUT_H
#define TESSERA_RUNTIME_CHECKPOINT_LAYOUT_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/tensor/BoundTensors.h"

#include <functional>

namespace tessera::rt {

struct Share {
  int tensor = 0; // of BoundTensors
  Block block;
  int rank = 0; // that writes it
};

/// The shares of all parameters and states. Those of one tensor are adjacent.
std::vector<Share> sharesOf(const BoundTensors &tensors);

/// The name of the file that holds what a rank writes.
std::string rankFile(int rank);

/// The tensors, files, model, plan and mesh of a checkpoint; position, data and checksums are left to the caller. With
/// `integrated`, whole tensors lie in model.safetensors and optimizer.safetensors. `typeOf` gives the type that a
/// tensor has in the files.
Manifest describe(const BoundTensors &tensors, const std::vector<Share> &shares, bool integrated,
                  const std::function<plan::DType(int tensor)> &typeOf);

/// Lays out the pieces of `manifest` anew: every tensor whole, or cut along dimension 0 into `parts` files.
void layOutWhole(Manifest &manifest);
void layOutParts(Manifest &manifest, int parts);

} // namespace tessera::rt

#endif
