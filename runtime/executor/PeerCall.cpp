#include "runtime/executor/PeerCall.h"

#include "runtime/plan/PlanInfo.h"

#include <chrono>

namespace tessera::rt {

PeerCall::PeerCall(const plan::Step &step, const plan::Plan &plan, LoadedPlan &loaded, World &world)
    : loaded_(loaded), world_(world), sends_(step.has_send()),
      peer_(sends_ ? step.send().peer() : step.receive().peer()),
      channel_(sends_ ? step.send().channel() : step.receive().channel()),
      buffer_(sends_ ? step.send().input() : step.receive().output()),
      bytes_(bytesOf(toVector(plan.buffers(int(buffer_)).shape()), loaded.dtype(buffer_)).value_or(0)) {
  if (!loaded.layout(buffer_).plain() || !loaded.capabilities().onHost)
    staged_.resize(bytes_);
}

Status PeerCall::run(uint32_t index) {
  using Clock = std::chrono::steady_clock;
  void *data = staged_.empty() ? loaded_.addressAt(buffer_, index) : staged_.data();
  TESSERA_RETURN_IF_ERROR(loaded_.synchronize());
  if (sends_ && !staged_.empty())
    TESSERA_RETURN_IF_ERROR(loaded_.downloadAt(buffer_, index, staged_.data()));
  const Clock::time_point begin = Clock::now();
  TESSERA_RETURN_IF_ERROR(sends_ ? world_.send(int(peer_), channel_, data, bytes_)
                                 : world_.receive(int(peer_), channel_, data, bytes_));
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  return sends_ || staged_.empty() ? Status() : loaded_.uploadAt(buffer_, index, staged_.data());
}

} // namespace tessera::rt
