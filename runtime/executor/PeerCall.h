//===- PeerCall.h - a plan's send or receive as a call of the world -----------------------------===//
//
// Tensors travel in plain layout, as the two ends may hold them in different ones. A buffer of another layout, and that
// of a device, goes through a plain copy.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_PEERCALL_H
#define TESSERA_RUNTIME_EXECUTOR_PEERCALL_H

#include "runtime/backend/Backend.h"
#include "runtime/comm/Communicator.h"

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
  /// Of one message.
  uint64_t bytes() const { return bytes_; }
  bool sends() const { return sends_; }
  uint32_t peer() const { return peer_; }
  uint32_t channel() const { return channel_; }

private:
  LoadedPlan &loaded_;
  World &world_;
  const bool sends_;
  uint32_t peer_, channel_, buffer_;
  uint64_t bytes_;
  std::vector<std::byte> staged_; // empty: the buffer's own memory is sent or received into
  double seconds_ = 0;
};

} // namespace tessera::rt

#endif
