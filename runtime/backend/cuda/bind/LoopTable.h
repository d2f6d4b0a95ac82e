//===- LoopTable.h - launches of the same loop as one launch -------------------------------------------===//
//
//   y0[i] = 2 x0[i] for 1000 points, y1[i] = 2 x1[i] for 10 points  =>  one launch of two blocks, with a table
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_LOOPTABLE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_LOOPTABLE_H

#include "runtime/backend/cuda/bind/CudaKernel.h"

namespace tessera::rt::cuda {

/// A launch of `loop` over so many points; its table can be joined with others.
Launch launchLoop(PointLoop loop, int64_t points, std::vector<Place> arguments);

/// Whether it is a loop whose addresses are known now, and so can stand in a table.
bool fitsTable(const Launch &launch);

/// Launches of equal loops that fit a table as one; none may write what another reads or writes.
Launch inOneTable(const std::vector<const Launch *> &launches);

/// Makes one launch of a kernel that is launches of the same loop; none may write what another reads or writes.
void joinLoops(CudaKernel &kernel);

} // namespace tessera::rt::cuda

#endif
