//===- Communicator.h - how ranks talk -------------------------------------------------------===//
//
// One object per rank and group. All members call the same operations in the same order; a call
// returns when this rank's output is complete and its input may be reused. Results are
// deterministic and equal on all ranks: reductions add in group order. Transports: threads of one
// process (the default on one machine and the semantic reference), MPI, TCP, NCCL. All pass
// test/conformance/comm.
//
//   operation      MPI                    NCCL
//   allReduce      MPI_Allreduce          ncclAllReduce
//   allGather      MPI_Allgather          ncclAllGather
//   reduceScatter  MPI_Reduce_scatter_block  ncclReduceScatter
//   broadcast      MPI_Bcast              ncclBroadcast
//   exchange       MPI_Alltoallw          grouped ncclSend / ncclRecv
//   barrier        MPI_Barrier            -
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_COMMUNICATOR_H
#define TESSERA_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::rt {

/// A strided box of a buffer, in elements: count[i] elements, stride[i] apart, from `offset`; the
/// last dimension is innermost. Example: rows 2..3 of a [4, 5] matrix: {10, {2, 5}, {5, 1}}.
struct Box {
  int64_t offset = 0;
  std::vector<int64_t> count;
  std::vector<int64_t> stride;
};

/// One message of an exchange: `box` of my input goes to `peer` / `box` of my output comes from
/// `peer`. Counts of the two ends agree; several messages between two members match in list order.
struct Transfer {
  int peer = 0; // index in the group; myself allowed
  Box box;
};

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0; // my index in the group
  virtual int size() const = 0;

  /// out[i] = reduction over members of in[i]. in == out is allowed.
  virtual Status allReduce(const void *in, void *out, size_t count, plan::DType dtype, plan::Reduction reduction) = 0;
  /// Both buffers seen as [outer, n, inner] (out) and [outer, inner] (in): out[o][r] = in of member
  /// r [o].
  virtual Status allGather(const void *in, void *out, size_t outer, size_t inner, plan::DType dtype) = 0;
  /// in seen as [outer, n, inner], out as [outer, inner]: out[o] = reduction over members of
  /// in[o][me].
  virtual Status reduceScatter(const void *in, void *out, size_t outer, size_t inner, plan::DType dtype,
                               plan::Reduction reduction) = 0;
  virtual Status broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) = 0;
  /// Moves strided boxes between members: all-to-all, permute, halo. Elements of `out` that no
  /// transfer names are left as they are.
  virtual Status exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                          const std::vector<Transfer> &receives, plan::DType dtype) = 0;
  virtual Status barrier() = 0;
  /// Sets boxes of `out` to a value: the edges of a halo. By default in host memory.
  virtual Status fill(void *out, const std::vector<Box> &boxes, plan::DType dtype, double value);
  /// Whether buffers are a device's memory and a call only enqueues its work on the device's communication
  /// stream. Then "complete" means complete for what is enqueued after it.
  virtual bool enqueues() const { return false; }
  /// All members, before the first operation: operations will take memory of [memory, memory + bytes), at the same
  /// offsets on all members, and `scratch` bytes of the communicator's own. A device's communicator registers the
  /// one, if all can, and allocates the other, so that nothing fails later. `memory` may be null, and outlives this.
  virtual Status prepare(void *memory, size_t bytes, size_t scratch) { return Status(); }
};

/// A transport: makes the communicators of one rank.
class World {
public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All ranks of the world call split with their plan's groups, in the same order. `ranks` are
  /// world ranks, this one among them.
  virtual Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks) = 0;
  /// This rank failed or is leaving early: wakes every rank that waits in a collective, which then
  /// returns an error that names this rank and `reason`. Safe from any thread and signal-safe
  /// enough to be called from a handler's helper thread.
  virtual void abort(const std::string &reason) = 0;
  /// Who aborted the world and why; empty as long as nobody did, as far as this rank knows. Never waits.
  virtual std::string aborted() { return ""; }
};

} // namespace tessera::rt

#endif
