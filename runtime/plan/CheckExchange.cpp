#include "runtime/plan/CheckExchange.h"

#include "runtime/plan/Blocks.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"

namespace tessera::rt {
namespace {

using Boxes = google::protobuf::RepeatedPtrField<plan::PeerBox>;

Block blockOf(const plan::PeerBox &box) { return {toVector(box.offset()), toVector(box.shape())}; }

Status checkInside(const plan::Plan &plan, const Boxes &boxes, uint32_t buffer, const std::vector<int64_t> &shape,
                   uint32_t members, const std::string &verb) {
  for (const plan::PeerBox &box : boxes) {
    if (box.peer() >= members)
      return Status::error(verb + "member " + std::to_string(box.peer()) + ", which a group of " +
                           std::to_string(members) + " does not have");
    if (!isInside(blockOf(box), shape))
      return Status::error(verb + "member " + std::to_string(box.peer()) + " a box at " +
                           shapeText(toVector(box.offset())) + " of shape " + shapeText(toVector(box.shape())) +
                           ", which is not inside " + bufferText(plan, buffer) + " of shape " + shapeText(shape));
  }
  return Status();
}

} // namespace

Status checkExchange(const plan::Plan &plan, const plan::Collective &c, const std::vector<int64_t> &in,
                     const std::vector<int64_t> &out) {
  if (c.kind() != plan::EXCHANGE) {
    if (c.sends_size() != 0 || c.receives_size() != 0)
      return Status::error("has boxes, which only an exchange has");
    return Status();
  }
  if (in.size() != out.size())
    return Status::error("turns " + shapeText(in) + " into " + shapeText(out) +
                         ", which have different numbers of dimensions");
  const auto members = uint32_t(plan.groups(int(c.group())).ranks_size());
  TESSERA_RETURN_IF_ERROR(checkInside(plan, c.sends(), c.input(), in, members, "sends to "));
  TESSERA_RETURN_IF_ERROR(checkInside(plan, c.receives(), c.output(), out, members, "receives from "));
  std::vector<Block> received;
  for (const plan::PeerBox &box : c.receives())
    received.push_back(blockOf(box));
  return checkTiling(received, out).context("what is received does not cover " + bufferText(plan, c.output()));
}

Status ExchangeMatcher::add(const plan::Plan &plan, const plan::Collective &c, const std::string &place) {
  const plan::Group &group = plan.groups(int(c.group()));
  for (const bool sent : {true, false}) {
    std::map<uint32_t, Half> byPeer;
    for (const plan::PeerBox &box : sent ? c.sends() : c.receives())
      byPeer[group.ranks(int(box.peer()))].shapes.push_back(toVector(box.shape()));
    for (auto &[peer, half] : byPeer) {
      half.sent = sent;
      const Key key = sent ? Key(place, plan.rank(), peer) : Key(place, peer, plan.rank());
      TESSERA_RETURN_IF_ERROR(addHalf(key, std::move(half)));
    }
  }
  return Status();
}

Status ExchangeMatcher::addHalf(const Key &key, Half half) {
  auto found = halves_.find(key);
  if (found == halves_.end()) {
    halves_.emplace(key, std::move(half));
    return Status();
  }
  const auto &[place, from, to] = key;
  const Shapes &sent = half.sent ? half.shapes : found->second.shapes;
  const Shapes &received = half.sent ? found->second.shapes : half.shapes;
  const std::string sender = place + "rank " + std::to_string(from) + " sends ";
  const std::string receiver = "rank " + std::to_string(to);
  if (sent.size() != received.size())
    return Status::error(sender + std::to_string(sent.size()) + " boxes to " + receiver + ", which receives " +
                         std::to_string(received.size()) + " from it");
  for (size_t i = 0; i < sent.size(); ++i)
    if (sent[i] != received[i])
      return Status::error(sender + "a box of shape " + shapeText(sent[i]) + " to " + receiver + ", which receives " +
                           shapeText(received[i]));
  halves_.erase(found);
  return Status();
}

Status ExchangeMatcher::finish() const {
  if (halves_.empty())
    return Status();
  const auto &[key, half] = *halves_.begin();
  const auto &[place, from, to] = key;
  const std::string sender = "rank " + std::to_string(from), receiver = "rank " + std::to_string(to);
  return Status::error(place + (half.sent ? sender + " sends a box to " + receiver + ", which receives none from it"
                                          : receiver + " receives a box from " + sender + ", which sends it none"));
}

} // namespace tessera::rt
