//===- NcclWorld.h - collectives between CUDA devices -----------------------------------------------===//
//
// A World on top of the launcher's world (threads, TCP or MPI). The launcher's world carries the unique ids and tells
// who aborted; NCCL carries the data. Buffers are device memory; calls enqueue on the device's communication stream.
//
//   std::unique_ptr<World> gpus = createNcclWorld(world, device);      // one device per rank
//   Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1});
//   (*group)->allReduce(x, x, n, plan::F32, plan::SUM);                // in device memory
//
// Order. All ranks call group() with their plan's groups by index, and at each index the groups are disjoint. So all
// members create a group's communicator at the same position of a common sequence, which cannot deadlock. Equal groups
// share one communicator. Setting one up does not block: it is polled, with a time-out. The communicators of some of
// the ranks are split from one of all ranks: they find each other faster, and share its memory. TESSERA_NCCL_SPLIT=0
// makes each by itself.
//
// Registered memory. Communicator::prepare registers the arena and a communicator's own memory with NCCL, so that
// collectives work in place where the hardware can. NCCL requires that all members register or none, and at equal
// offsets. The caller ensures equal offsets. If one member cannot register, none does.
//
// Failures. While a rank waits for its device (Device::finish), it asks every communicator for errors, and the
// launcher's world whether a rank aborted. If so, all communicators are revoked: their work is given up, and the device
// comes to rest. The error names the rank that failed. Recorded graphs hold the communicators whose work they have.
// Therefore communicators are destroyed only after the graphs: at the latest by the world, which outlives all graphs. A
// device that has not come to rest after 10 s ends its process. NCCL's own variables (NCCL_DEBUG, ...) keep working.
//
// The order in which NCCL adds is its own: results are the same from run to run and on all ranks, but not
// those of a sum in group order.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_NCCL_NCCLWORLD_H
#define TESSERA_RUNTIME_COMM_NCCL_NCCLWORLD_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"

namespace tessera::rt {

/// `host` outlives the result. `seconds`: how long the members of a group may take to meet.
std::unique_ptr<World> createNcclWorld(World &host, std::shared_ptr<Device> device, double seconds = 120);

} // namespace tessera::rt

#endif
