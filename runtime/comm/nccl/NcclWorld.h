//===- NcclWorld.h - collectives between CUDA devices -----------------------------------------------===//
//
// A World on top of another: the launcher's world (threads or MPI) carries the unique ids and tells who
// aborted; NCCL carries the data. Buffers are device memory; calls enqueue on the device's communication stream.
//
//   std::unique_ptr<World> gpus = createNcclWorld(world, device);      // one device per rank
//   Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1});
//   (*group)->allReduce(x, x, n, plan::F32, plan::SUM);                // in device memory
//
// Order. All ranks call group() with their plan's groups by index, and at each index the groups are disjoint:
// members of a group create its communicator as the same one of a common sequence, which cannot deadlock. Equal
// groups share one communicator. Setting one up does not block: it is polled, with a time-out.
//
// Registered memory. Communicator::prepare registers the arena and a communicator's own memory with NCCL, so that
// collectives work in place where the hardware can. NCCL wants all members to do so, or none, and at equal offsets: who
// calls makes sure of the latter, and a member that cannot register keeps the others from it.
//
// Failures. While a rank waits for its device (Device::finish) every communicator is asked for errors, and the
// launcher's world whether somebody aborted; then all communicators are aborted, and the error names who
// failed. NCCL's own variables (NCCL_DEBUG, ...) keep working.
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
