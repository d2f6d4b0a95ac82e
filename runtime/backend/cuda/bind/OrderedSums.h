//===- OrderedSums.h - sums in the order of a reproducible plan -------------------------------------------===//
//
// The order that ExpressionCode.h gives sums of reproducible plans (kPartialSums), as CUDA C++. It follows from the
// number of terms alone, so that one result costs what it costs: TY threads share a result's blocks of terms, where it
// has several, and one of them adds the blocks. No sum is cut into parts for several blocks of threads, so a sum of
// everything keeps one of them busy.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_ORDEREDSUMS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_ORDEREDSUMS_H

#include "runtime/backend/cuda/bind/CudaKernel.h"

#include <vector>

namespace tessera::rt::cuda {

/// The kernel for results that reduce the same dimensions, all of which are stored: number rs[n] at outputs[rs[n]].
Launch orderedSums(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
                   const std::vector<Place> &outputs);

} // namespace tessera::rt::cuda

#endif
