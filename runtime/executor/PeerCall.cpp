#include "runtime/executor/PeerCall.h"

#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <chrono>

namespace tessera::rt {

PeerCall::PeerCall(const plan::Step &step, const plan::Plan &plan, LoadedPlan &loaded, World &world)
    : loaded_(loaded), world_(world), sends_(step.has_send()),
      channel_(sends_ ? step.send().channel() : step.receive().channel()), buffer_(peerBuffer(step)),
      whole_(wholeBlock(toVector(plan.buffers(int(buffer_)).shape()))),
      elementBytes_(bytesOf({}, loaded.dtype(buffer_)).value_or(0)) {
  for (PeerMessage &message : peerMessages(plan, step)) {
    Message &mine = messages_.emplace_back();
    mine.peer = message.peer;
    mine.box = std::move(message.box);
    mine.bytes = elementBytes_;
    uint64_t stride = elementBytes_; // of a dimension
    bool isWhole = true;             // in all dimensions behind this one
    for (size_t d = mine.box.shape.size(); d-- > 0;) {
      mine.isRange &= isWhole || mine.box.shape[d] == 1;
      isWhole &= mine.box.shape[d] == whole_.shape[d];
      mine.offset += uint64_t(mine.box.offset[d]) * stride;
      mine.bytes *= uint64_t(mine.box.shape[d]);
      stride *= uint64_t(whole_.shape[d]);
    }
    packedBytes_ = std::max<size_t>(packedBytes_, mine.isRange ? 0 : mine.bytes);
  }
  if (!loaded.layout(buffer_).plain() || !loaded.capabilities().onHost)
    stagedBytes_ = bytesOf(whole_.shape, loaded.dtype(buffer_)).value_or(0);
}

uint64_t PeerCall::bytes() const {
  uint64_t bytes = 0;
  for (const Message &message : messages_)
    bytes += message.bytes;
  return bytes;
}

std::vector<uint32_t> PeerCall::peers() const {
  std::vector<uint32_t> peers;
  for (const Message &message : messages_)
    peers.push_back(message.peer);
  return peers;
}

Status PeerCall::move(const Message &message, std::byte *data) {
  std::byte *at = message.isRange ? data + message.offset : packed_.data();
  if (sends_ && !message.isRange)
    copyBlock(data, whole_, at, message.box, elementBytes_);
  TESSERA_RETURN_IF_ERROR(sends_ ? world_.send(int(message.peer), channel_, at, message.bytes)
                                 : world_.receive(int(message.peer), channel_, at, message.bytes));
  if (!sends_ && !message.isRange)
    copyBlock(at, message.box, data, whole_, elementBytes_);
  return Status();
}

Status PeerCall::run(uint32_t index) {
  using Clock = std::chrono::steady_clock;
  if (messages_.empty())
    return Status();
  staged_.resize(stagedBytes_);
  packed_.resize(packedBytes_);
  auto *data = staged_.empty() ? static_cast<std::byte *>(loaded_.addressAt(buffer_, index)) : staged_.data();
  TESSERA_RETURN_IF_ERROR(loaded_.synchronize());
  if (sends_ && !staged_.empty())
    TESSERA_RETURN_IF_ERROR(loaded_.downloadAt(buffer_, index, staged_.data()));
  const Clock::time_point begin = Clock::now();
  for (const Message &message : messages_)
    TESSERA_RETURN_IF_ERROR(move(message, data));
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  return sends_ || staged_.empty() ? Status() : loaded_.uploadAt(buffer_, index, staged_.data());
}

} // namespace tessera::rt
