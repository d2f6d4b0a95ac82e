//===- Layout.h - which rank writes what into which file --------------------------------------===//
//
// The blocks of a tensor that a plan's ranks hold are its shares. One that several hold is written by
// one of them, chosen so that all write about as much.
//
//   std::vector<Share> shares = sharesOf(plans);
//   Manifest manifest = describe(plans, shares, /*integrated=*/false, types);
//   // rank0.safetensors, rank1.safetensors, ...: each holds the shares that its rank writes
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_LAYOUT_H
#define TESSERA_RUNTIME_CHECKPOINT_LAYOUT_H

#include "runtime/checkpoint/Manifest.h"

#include <functional>

namespace tessera::rt {

struct Share {
  int binding = 0;
  Block block;
  int rank = 0; // that writes it
};

/// Of all parameters and states, those of one binding together.
std::vector<Share> sharesOf(const std::vector<plan::Plan> &plans);

/// The name of the file that holds what a rank writes.
std::string rankFile(int rank);

/// Tensors, files, model, plan and mesh; without position, data and sums. `integrated`: whole tensors
/// in model.safetensors and optimizer.safetensors. `typeOf` gives the type that a binding's tensor
/// has in the files.
Manifest describe(const std::vector<plan::Plan> &plans, const std::vector<Share> &shares, bool integrated,
                  const std::function<plan::DType(int binding)> &typeOf);

/// Puts the pieces of `manifest` anew: every tensor whole, or in `parts` files, cut along dimension 0.
void layOutWhole(Manifest &manifest);
void layOutParts(Manifest &manifest, int parts);

} // namespace tessera::rt

#endif
