//===- Weights.h - whether a set of tensors is what a plan wants ------------------------------===//
//
// What does not fit is told in one message that lists every tensor:
//
//   w.safetensors: parameter 'fc.bias' is missing; tensor 'fc.weight' has the shape [4, 8]; the plan
//   wants [8, 4]; the plan has no use for 'head.weight'
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_WEIGHTS_H
#define TESSERA_RUNTIME_CHECKPOINT_WEIGHTS_H

#include "runtime/tensor/TensorSource.h"

#include <string>
#include <vector>

namespace tessera::rt {

/// Of the names, types and shapes of the model's parameters and states, without the optimizer's, in
/// hex: the same whatever the mesh, the batch and the optimizer.
std::string modelHash(const plan::Plan &plan);

/// An error that lists the parameters (if `strict`, the states too) of the plan that the source lacks
/// or has in another shape.
Status checkWeights(const plan::Plan &plan, const TensorSource *weights, bool strict);
/// The names in the source that the plan has no use for.
std::vector<std::string> unusedWeights(const plan::Plan &plan, const TensorSource &weights);

/// Whether a state belongs to the optimizer and not to the model: it is called like a parameter, behind
/// its own name: "momentum/fc.weight".
bool isOptimizerState(const plan::Plan &plan, const plan::Binding &binding);

/// "'a', 'b', 'c' and 4 more".
std::string namesText(const std::vector<std::string> &names, size_t most = 8);

} // namespace tessera::rt

#endif
