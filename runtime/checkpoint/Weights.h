//===- Weights.h - whether a set of tensors is what a plan wants ------------------------------===//
//
// One error message lists every tensor that does not fit:
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

/// A hash in hex over the names, types and shapes of the model's parameters and states, without the optimizer's. It is
/// the same for every mesh, batch and optimizer.
std::string modelHash(const plan::Plan &plan);

/// An error that lists the plan's parameters that the source lacks or has in another shape. With `strict` it also
/// covers the states.
Status checkWeights(const plan::Plan &plan, const TensorSource *weights, bool strict);
/// Whether the binding begins as without the source, since that does not have it. What was left of compressed sums
/// (UnsentNames.h) is of so many ranks, so it also begins anew where its shape is another.
bool begins(const plan::Binding &binding, const TensorSource *weights);
/// The tensors of the source with what was left of compressed sums that the plan does not take.
std::vector<std::string> droppedUnsent(const plan::Plan &plan, const TensorSource &weights);
/// The names in the source that no tensor of the plan has, but for those of droppedUnsent.
std::vector<std::string> unusedWeights(const plan::Plan &plan, const TensorSource &weights);

/// Whether a state belongs to the optimizer and not to the model. Its name then ends in a parameter's name, as in
/// "momentum/fc.weight".
bool isOptimizerState(const plan::Plan &plan, const plan::Binding &binding);

/// "'a', 'b', 'c' and 4 more".
std::string namesText(const std::vector<std::string> &names, size_t most = 8);

} // namespace tessera::rt

#endif
