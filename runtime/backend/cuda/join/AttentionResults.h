//===- AttentionResults.h - attention that writes its results where the next step would put them -------===//
//
//   attention(q, k, v) -> t;  cast t -> y                           =>   attention that stores y
//   attention_grad(..) -> dq, dk, dv;  concat dq, dk, dv -> y       =>   attention_grad that stores the parts of y
//
// That is done where nothing else reads the results. The conversion is to 16 bits and nothing else. The concatenation
// may be of other views of the results, if rows, heads and batches of each lie evenly in it. Statistics that attention
// keeps for its gradient stay where they are.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_ATTENTIONRESULTS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_ATTENTIONRESULTS_H

#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <optional>

namespace tessera::rt::cuda {

/// Who computes it: the library, the library in parts that need less workspace, or generated kernels.
enum class AttentionBy { Library, LibraryInParts, Tiles };

/// Joins attention, or its gradient, at step `first` with the step that reads its results, if one kernel can do both.
std::optional<JoinedKernel> attentionFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                          size_t first, const BufferUses &uses, const JoinedProgram &joined,
                                          const BindOptions &options, AttentionBy by);

} // namespace tessera::rt::cuda

#endif
