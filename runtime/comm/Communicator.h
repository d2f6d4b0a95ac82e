//===- Communicator.h - how ranks talk -------------------------------------------------------===//
//
// One object per rank and group. All members call the same operations in the same order; a call returns when this
// rank's output is complete and its input may be reused. Results are deterministic and equal on all ranks. Reductions
// add in group order, by runs of neighbours or as a tree over the group (Reduce.h), except by NCCL, whose order is its
// own; trees between devices are made of messages. Transports: threads of one process (the default on one
// machine and the semantic reference), MPI, TCP, NCCL. All pass test/conformance/comm. The operations correspond to
// those of MPI and NCCL:
//
//   operation      MPI                    NCCL
//   allReduce      MPI_Allreduce          ncclAllReduce
//   allGather      MPI_Allgather          ncclAllGather
//   reduceScatter  MPI_Reduce_scatter_block  ncclReduceScatter
//   broadcast      MPI_Bcast              ncclBroadcast
//   exchange       MPI_Alltoallw          grouped ncclSend / ncclRecv
//   barrier        MPI_Barrier            -
//
// Ranks of different stages of a pipeline talk by World::send and World::receive. Each pair of ranks has channels,
// whose messages keep their order; channels do not wait for each other. Devices talk by exchanges of all ranks instead
// (runtime/executor/DeviceMessages.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_COMMUNICATOR_H
#define TESSERA_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/Reduce.h"
#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::rt {

/// A strided box of a buffer, in elements. It begins at `offset` and has in dimension i count[i] elements, stride[i]
/// apart. The last dimension is innermost. Example: rows 2..3 of a [4, 5] matrix: {10, {2, 5}, {5, 1}}.
struct Box {
  int64_t offset = 0;
  std::vector<int64_t> count;
  std::vector<int64_t> stride;
};

/// One message of an exchange. As a send, `box` of this rank's input goes to `peer`; as a receive, `box` of this rank's
/// output comes from `peer`. Both ends name equally many elements. Several messages between two members match in the
/// order of the lists.
struct Transfer {
  int peer = 0; // index in the group; may be this rank itself
  Box box;
};

/// A tensor of a gather or scatter, whose blocks are rows.
struct Rows {
  const void *in = nullptr;
  void *out = nullptr;
  size_t outer = 1, inner = 0;
};

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0; // this rank's index in the group
  virtual int size() const = 0;

  /// out[i] = reduction over members of in[i]. in == out is allowed.
  virtual Status allReduce(const void *in, void *out, size_t count, plan::DType dtype, Reducer reducer) = 0;
  /// With `out` seen as [outer, n, inner] and `in` as [outer, inner]: out[o][r] = in[o] of member r. All tensors of the
  /// list start up once. What one of them writes, no other one reads or writes.
  virtual Status allGather(std::span<const Rows> tensors, plan::DType dtype) = 0;
  /// With `in` seen as [outer, n, inner] and `out` as [outer, inner]: out[o] = reduction over members of in[o][rank()].
  /// As above for a list.
  virtual Status reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) = 0;
  /// The same for one tensor.
  Status allGather(const void *in, void *out, size_t outer, size_t inner, plan::DType dtype) {
    const Rows one{in, out, outer, inner};
    return allGather({&one, 1}, dtype);
  }
  Status reduceScatter(const void *in, void *out, size_t outer, size_t inner, plan::DType dtype, Reducer reducer) {
    const Rows one{in, out, outer, inner};
    return reduceScatter({&one, 1}, dtype, reducer);
  }
  virtual Status broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) = 0;
  /// Moves strided boxes between members, for all-to-all, permute and halo. Elements of `out` that no transfer names
  /// keep their values.
  virtual Status exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                          const std::vector<Transfer> &receives, plan::DType dtype) = 0;
  virtual Status barrier() = 0;
  /// Sets boxes of `out` to a value, such as the edges of a halo. This implementation works in host memory.
  virtual Status fill(void *out, const std::vector<Box> &boxes, plan::DType dtype, double value);
  /// Whether buffers are a device's memory and a call only enqueues its work on the device's communication
  /// stream. Then "complete" means complete for what is enqueued after it.
  virtual bool enqueues() const { return false; }
  /// All members call this before the first operation. It announces that operations will use the memory [memory, memory
  /// + bytes), at the same offsets on all members, and `scratch` bytes of the communicator's own. A device's
  /// communicator registers the former, if all members can, and allocates the latter, so that no operation fails for
  /// lack of memory later. `memory` may be null, and outlives the communicator.
  virtual Status prepare(void *memory, size_t bytes, size_t scratch) { return Status(); }
  /// Memory for the caller where this communicator's buffers are, as long as it lives.
  virtual Result<void *> keep(size_t bytes) { return Status::error("this transport keeps no memory"); }
};

/// A transport: makes the communicators of one rank.
class World {
public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All ranks of the world call this with their plan's groups, in the same order. `ranks` are world ranks, this rank
  /// among them. Members are in runs of `run` neighbours that share a faster link than the whole group, such as those on
  /// one machine; 1 or all of them: there is one link. Reductions add by runs, and between processes a reduction, gather
  /// or scatter crosses the slow link as few times as it can.
  virtual Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks, int run) = 0;
  Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks) { return group(ranks, 1); }
  /// A plan's group.
  Result<std::unique_ptr<Communicator>> groupOf(const plan::Group &of) {
    return group({of.ranks().begin(), of.ranks().end()}, of.run() > 0 ? int(of.run()) : 1);
  }
  /// All ranks call this before the first send or receive. NCCL has neither: see above.
  virtual Status openChannels() { return Status::error("this transport has no messages between two ranks"); }
  /// Sends a message of any size to another rank. Returns when `data` may be overwritten, and never waits for the
  /// receiver: what it has not taken yet is kept.
  virtual Status send(int peer, uint32_t channel, const void *data, size_t bytes) { return openChannels(); }
  /// Waits for the next message from `peer` on this channel. An error if it has another size, or a rank aborts or the
  /// peer leaves. Called by one thread at a time, as is send().
  virtual Status receive(int peer, uint32_t channel, void *data, size_t bytes) { return openChannels(); }
  /// Called when this rank failed or leaves early. Wakes every rank that waits in a collective or for a message; the
  /// call returns an error that names this rank and `reason`. Safe from any thread and signal-safe enough to be called
  /// from a handler's helper thread.
  virtual void abort(const std::string &reason) = 0;
  /// This rank has failed, and uses its communicators no more. Gives up work of theirs that is still under way and waits
  /// for other ranks. Tells nobody.
  virtual void abandon(const std::string &reason) {}
  /// Which rank aborted the world and why, as far as this rank knows; empty if none did. Never waits.
  virtual std::string aborted() { return ""; }
};

} // namespace tessera::rt

#endif
