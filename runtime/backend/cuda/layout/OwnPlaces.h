//===- OwnPlaces.h - small tensors that share memory with nothing ------------------------------------------===//
//
// Tensors that are not used at the same time share memory, so that steps which have nothing to do with each other must
// keep their order. A place for each small tensor costs little, and steps that could run as one do so wherever the
// compiler has put their sums.
//
//   0 fused x -> dx, ds · 1 fused ds -> s (an update) · 2 fused dx -> y, db
//
// Step 2 joins step 0 before step 1, unless `db` lies where `ds` does.
//
// Only what loops alone make and read is moved, behind everything else.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_LAYOUT_OWNPLACES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_LAYOUT_OWNPLACES_H

#include "runtime/backend/cuda/layout/MovedBuffers.h"
#include "runtime/plan/plan.pb.h"

namespace tessera::rt::cuda {

class OwnPlaces : public MovedBuffers {
public:
  explicit OwnPlaces(const plan::Plan &plan);
};

} // namespace tessera::rt::cuda

#endif
