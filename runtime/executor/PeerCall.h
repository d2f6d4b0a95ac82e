//===- PeerCall.h - a plan's send or receive as a call of the world -----------------------------===//
//
// Tensors travel in plain layout, as the two ends may hold them in different ones. A buffer of another layout, and that
// of a device, goes through a plain copy. So does a box that is not one range of the buffer's bytes.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_PEERCALL_H
#define TESSERA_RUNTIME_EXECUTOR_PEERCALL_H

#include "runtime/backend/Backend.h"
#include "runtime/comm/Communicator.h"
#include "runtime/plan/stages/Stages.h"

#include <vector>

namespace tessera::rt {

/// One step that is a send or a receive, prepared once and run many times.
class PeerCall {
public:
  /// The plan passed the checker; `step` is one of the two. All arguments outlive this object.
  PeerCall(const plan::Step &step, const plan::Plan &plan, LoadedPlan &loaded, World &world);

  /// `index`: of the call of the step's section.
  Status run(uint32_t index);
  /// How long all runs took among the ranks, waiting for them included.
  double seconds() const { return seconds_; }
  /// Of all messages of one run.
  uint64_t bytes() const;
  bool sends() const { return sends_; }
  /// The other ends of its messages.
  std::vector<uint32_t> peers() const;
  uint32_t channel() const { return channel_; }

private:
  struct Message {
    uint32_t peer = 0;
    Block box;
    uint64_t offset = 0, bytes = 0; // in the plain buffer, if the box is one range of it
    bool isRange = true;
  };
  /// Sends or receives a message of the plain buffer at `data`.
  Status move(const Message &message, std::byte *data);

  LoadedPlan &loaded_;
  World &world_;
  const bool sends_;
  const uint32_t channel_, buffer_;
  const Block whole_; // the buffer
  const uint64_t elementBytes_;
  std::vector<Message> messages_;
  // Sizes of the two below, which are made at the first run: between devices there is none (DeviceMessages.h).
  size_t stagedBytes_ = 0, packedBytes_ = 0;
  std::vector<std::byte> staged_; // empty: the buffer's own memory is sent or received into
  std::vector<std::byte> packed_; // of boxes that are no ranges
  double seconds_ = 0;
};

} // namespace tessera::rt

#endif
