#include "runtime/plan/stages/Stages.h"

#include "runtime/plan/PlanInfo.h"

#include <algorithm>

namespace tessera::rt {

Stages::Stages(const std::vector<uint32_t> &ranks) : count_(uint32_t(ranks.size())), begins_{0} {
  for (uint32_t each : ranks)
    begins_.push_back(begins_.back() + each);
}

uint32_t Stages::of(uint32_t rank) const {
  if (begins_.empty())
    return std::min(rank / each_, count_ - 1);
  const auto behind = std::ranges::upper_bound(begins_, rank) - begins_.begin();
  return std::min(uint32_t(behind), count_) - 1;
}

Stages stagesOf(const plan::Plan &plan) {
  if (hasOwnMeshes(plan))
    return Stages(std::vector<uint32_t>(plan.stage_ranks().begin(), plan.stage_ranks().end()));
  uint32_t ranks = 1;
  for (const plan::MeshAxis &axis : plan.mesh())
    ranks *= axis.size();
  const uint32_t count = std::max(1u, plan.stages());
  return Stages(count, std::max(1u, ranks / count));
}

uint32_t placeInMesh(const plan::Plan &plan) {
  return hasOwnMeshes(plan) ? stagesOf(plan).placeOf(plan.rank()) : plan.rank();
}

std::string meshText(const plan::Plan &plan) {
  std::string text;
  for (const plan::MeshAxis &axis : plan.mesh())
    text += (text.empty() ? "" : ", ") + axis.name() + "=" + std::to_string(axis.size());
  if (text.empty())
    text = "one rank";
  return hasOwnMeshes(plan) ? text + " of stage " + std::to_string(stagesOf(plan).of(plan.rank())) : text;
}

uint32_t peerBuffer(const plan::Step &step) { return step.has_send() ? step.send().input() : step.receive().output(); }

std::vector<PeerMessage> peerMessages(const plan::Plan &plan, const plan::Step &step) {
  std::vector<PeerMessage> messages;
  if (!step.has_send() && !step.has_receive())
    return messages;
  if (!hasOwnMeshes(plan))
    return {{step.has_send() ? step.send().peer() : step.receive().peer(),
             wholeBlock(toVector(plan.buffers(int(peerBuffer(step))).shape()))}};
  for (const plan::PeerBox &box : step.has_send() ? step.send().boxes() : step.receive().boxes())
    messages.push_back({box.peer(), {toVector(box.offset()), toVector(box.shape())}});
  return messages;
}

uint64_t peerBytes(const plan::Plan &plan, const plan::Step &step) {
  uint64_t bytes = 0;
  for (const PeerMessage &message : peerMessages(plan, step))
    bytes += bytesOf(message.box.shape, plan.buffers(int(peerBuffer(step))).dtype()).value_or(0);
  return bytes;
}

std::string peersText(const plan::Plan &plan, const plan::Step &step) {
  std::string list;
  const std::vector<PeerMessage> messages = peerMessages(plan, step);
  for (const PeerMessage &message : messages)
    list += (list.empty() ? "" : ", ") + std::to_string(message.peer);
  return messages.empty() ? "no rank" : (messages.size() > 1 ? "ranks " : "rank ") + list;
}

} // namespace tessera::rt
