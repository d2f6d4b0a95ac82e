//===- Collectives.h - a plan's collective as calls of a communicator -------------------------===//
//
// Translates a collective of the plan, which speaks of logical row-major tensors, to the memory of
// a loaded plan. Reductions and gathers are calls of their own; what only moves data (all-to-all,
// permute, halo, exchange) becomes an `exchange` of strided boxes. Boxes are boxes of the *physical* shape:
//
//   buffer [8, 64, 32, 32] under the layout {{1, 16}} has the physical shape [8, 4, 32, 32, 16];
//   its channels 32..63 are the box [8, 2, 32, 32, 16] from physical index [0, 2, 0, 0, 0]
//
// A range of a blocked dimension is a box only if the block divides its ends, and the two ends of a
// transfer only agree if input and output have one layout. Otherwise the data goes through plain
// copies. So do exchanges of blocked buffers, whose boxes differ from rank to rank.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_COLLECTIVES_H
#define TESSERA_RUNTIME_EXECUTOR_COLLECTIVES_H

#include "runtime/backend/Backend.h"
#include "runtime/comm/Communicator.h"

#include <vector>

namespace tessera::rt {

/// One collective step, prepared once and run many times.
class CollectiveCall {
public:
  /// `plan` passed the checker; `group` is the communicator of the collective's group. All of them outlive this object.
  /// With `copies`, data goes through plain copies in any case.
  CollectiveCall(const plan::Plan &plan, const plan::Collective &collective, LoadedPlan &loaded, Communicator &group,
                 bool copies = false);

  /// Sends the collectives of `others` with this one from now on, where their memory allows it, and they do nothing by
  /// themselves. The plan says that they may be one message, and all ranks of the group call this. Returns whether they
  /// are sent together; memory decides in the same way on all ranks whose layouts have the same signatures.
  bool join(const std::vector<CollectiveCall *> &others);

  /// `index`: of the call of the step's section.
  Status run(uint32_t index = 0);
  /// How long all runs took among the ranks: moving data and waiting for other ranks, but not waiting for this rank's
  /// own kernels.
  double seconds() const { return seconds_; }
  /// The scratch memory in bytes that a communicator of a device may need besides the tensors (Communicator::prepare).
  size_t scratchBytes() const;
  /// Whether the data is sent with an earlier step's.
  bool joined() const { return joined_; }
  /// Whether the data goes through plain copies.
  bool staged() const { return staged_; }

private:
  struct Tensor {
    uint32_t buffer;
    std::vector<int64_t> shape;
    Layout layout;
  };
  void prepare();
  Status communicate(const void *in, void *out, uint32_t index);
  bool joinTensor(const std::vector<CollectiveCall *> &others);
  /// The box of `t` that is [start, start + length) along logical dimension d.
  static Box slab(const Tensor &t, size_t d, int64_t start, int64_t length);
  static Box whole(const Tensor &t);
  /// A box of `t`, which has no blocked dimension.
  static Box boxOf(const Tensor &t, const plan::PeerBox &box);
  bool direct() const;

  const plan::Collective &collective_;
  LoadedPlan &loaded_;
  Communicator &group_;
  Tensor in_, out_;
  plan::DType type_;
  uint64_t elementBytes_;
  bool staged_ = false, joined_ = false;
  double seconds_ = 0;
  std::vector<char> stagedIn_, stagedOut_;
  size_t count_ = 0, outer_ = 1, inner_ = 1;
  std::vector<CollectiveCall *> along_; // gathers or scatters that are sent with this one
  std::vector<Rows> rows_;              // of this one and of those
  std::vector<Transfer> sends_, receives_;
  std::vector<Box> fills_;
};

/// A hash of the layouts of the collective's two buffers. If the members of a group have different ones, their memory
/// cannot be matched directly.
int64_t layoutSignature(const plan::Collective &collective, const LoadedPlan &loaded);

/// The sizes of `shape` in memory under `layout`, outermost first.
std::vector<int64_t> physicalSizes(const std::vector<int64_t> &shape, const Layout &layout);
/// How many neighbours along logical dimension d lie in one block: 1 if d is not blocked.
int64_t blockOf(const Layout &layout, size_t d);

} // namespace tessera::rt

#endif
