//===- GlobalTensors.h - whole tensors from the ranks' boxes ----------------------------------===//
//
// The plans' bindings say which box of a global tensor each rank holds. Gathering sends every
// primary box to rank 0; saving does so tensor by tensor, so that no rank holds the whole model at
// once.
//
//   std::vector<char> w;                                           // filled on rank 0 only
//   TESSERA_RETURN_IF_ERROR(gatherGlobal(executor, tensors, tensor, w));
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_GLOBALTENSORS_H
#define TESSERA_RUNTIME_EXECUTOR_GLOBALTENSORS_H

#include "runtime/executor/Executor.h"
#include "runtime/tensor/BoundTensors.h"

namespace tessera::rt {

/// Fills rank 0's `global` with a whole tensor, row-major, in the type in which ranks hold it. All ranks call it, those
/// that do not bind the tensor as well.
Status gatherGlobal(Executor &executor, const BoundTensors &tensors, int tensor, std::vector<char> &global);

/// Copies `held`, packed elements of shape `extent`, to the first places of every dimension of a tensor of shape
/// `shape`, and zeros to all other places. So a rank's block fills a padded buffer.
void padBox(const std::vector<int64_t> &shape, const std::vector<int64_t> &extent, const void *held, void *padded,
            uint64_t elementBytes);

/// Writes the model's parameters and states, without the optimizer's, under their names to a safetensors file on rank
/// 0. They keep the type of the buffers: a widened run saves F64, which every plan can load.
Status saveWeights(Executor &executor, const std::vector<plan::Plan> &plans, const std::string &path);

} // namespace tessera::rt

#endif
