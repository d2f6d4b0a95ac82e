//===- Batches.h - independent loops of the same code as one launch -------------------------------------===//
//
// The same loop often runs on many tensors, such as the update of every parameter, or the parts that a tensor is sliced
// into. Where the generated code is the same but for sizes and addresses, such steps run as one launch (LoopTable.h):
//
//   steps: 0 w0 -= g0 · 1 matmul -> t · 2 w1 -= g1 · 3 relu t        =>   {0, 2} run at 2, if step 1 neither reads nor
//   writes w0, and does not write g0
//
// Steps are only put off, never brought forward: as long as no step conflicts with those that wait.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_BATCHES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_BATCHES_H

#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <functional>

namespace tessera::rt::cuda {

enum class BatchOf {
  LastWrites, // steps whose results no later step of the program reads
  Loops,      // all whose results no collective reads: it would have to wait for the others
};

/// Calls `take` for every batch that is possible and, where that returns true, joins its steps.
void joinBatches(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
                 const BufferUses &uses, const BindOptions &options, BatchOf which,
                 const std::function<bool(const JoinedKernel &, size_t place)> &take);

} // namespace tessera::rt::cuda

#endif
