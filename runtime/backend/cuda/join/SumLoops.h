//===- SumLoops.h - loops over the results of sums, in the kernel that ends the sums -------------------===//
//
// A normalisation computes a few numbers per channel from the sums over all else, and each such loop would be a launch:
//
//   fused(x[512, 64]) -> s[64] sum;  fused(s, scale) -> a[64] = scale / sqrt(s)      =>   one kernel, whose last launch
//   makes s and a (SumEnd.h)
//
// A loop fits if it has one point for each result, and computes nothing else than values of those points. A sum of
// squared distances from such values, as a variance is, fits as well: SquaredDistances.h says how it becomes a loop.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_SUMLOOPS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_SUMLOOPS_H

#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <optional>

namespace tessera::rt::cuda {

/// Adds to `sums`, which may run by itself, the loops behind it that fit its last launch. What they make is stored.
void addSumLoops(JoinedKernel &sums, const plan::Program &program, const std::vector<KernelCall> &calls,
                 const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options);

/// The sums at step `first` with such loops; nothing if there are no sums, or none follows.
std::optional<JoinedKernel> sumsFrom(const plan::Program &program, const std::vector<KernelCall> &calls, size_t first,
                                     const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options);

} // namespace tessera::rt::cuda

#endif
