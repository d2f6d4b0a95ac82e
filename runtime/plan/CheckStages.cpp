#include "runtime/plan/CheckStages.h"

#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <tuple>

namespace tessera::rt {

uint32_t StageMessages::numberOf(const Contents &contents) {
  auto [it, fresh] = numbers_.try_emplace(contents, uint32_t(contents_.size()));
  if (fresh)
    contents_.push_back(&it->first);
  return it->second;
}

void StageMessages::addFlows(const plan::Plan &plan) {
  std::vector<Flow> &flows = flows_.emplace_back();
  for (const plan::Program &program : plan.programs()) {
    Flow &flow = flows.emplace_back(Flow{program.name(), TimeOrder(program), {}});
    for (const Section &section : flow.order.sections()) {
      std::vector<Event> &events = flow.sections.emplace_back();
      for (uint32_t s = section.begin; s < section.end; ++s) {
        const plan::Step &step = program.steps(int(s));
        if (step.has_send())
          events.push_back({Kind::Send, s, step.send().channel(), step.name()});
        else if (step.has_receive())
          events.push_back({Kind::Receive, s, step.receive().channel(), step.name()});
        else if (step.has_collective())
          events.push_back({Kind::Meet, s, step.collective().group(), step.name()});
      }
    }
  }
}

StageMessages::Ends StageMessages::endsOf(const plan::Plan &plan) {
  Ends ends;
  const std::vector<Flow> &flows = flows_.back();
  for (size_t p = 0; p < flows.size(); ++p) {
    auto &sections = ends.emplace_back();
    for (const std::vector<Event> &events : flows[p].sections) {
      std::vector<std::vector<End>> &mine = sections.emplace_back();
      for (const Event &event : events) {
        const plan::Step &step = plan.programs(int(p)).steps(int(event.step));
        std::vector<End> &ends = mine.emplace_back();
        for (const PeerMessage &message : peerMessages(plan, step))
          ends.push_back({message.peer, numberOf({message.box.shape, plan.buffers(int(peerBuffer(step))).dtype()})});
      }
    }
  }
  return ends;
}

void StageMessages::add(const plan::Plan &plan) {
  if (ends_.empty()) {
    stages_ = stagesOf(plan);
    alike_ = !hasOwnMeshes(plan);
  }
  const auto rank = uint32_t(ends_.size());
  const uint32_t place = stages_.placeOf(rank), first = rank - place;
  if (place == 0)
    addFlows(plan);
  ends_.push_back(endsOf(plan));
  const std::vector<Flow> &flows = flows_.back();
  for (size_t p = 0; p < flows.size(); ++p)
    for (size_t s = 0; s < flows[p].sections.size(); ++s)
      for (size_t e = 0; e < flows[p].sections[s].size(); ++e) {
        if (!alike_ || flows[p].sections[s][e].kind == Kind::Meet)
          continue;
        const End &mine = ends_.back()[p][s][e][0], &theirs = ends_[first][p][s][e][0];
        alike_ = mine == End{theirs.peer + place, theirs.contents} && stages_.placeOf(mine.peer) == place;
      }
}

/// One run of one program on all ranks, or on the first of every stage.
class StageRun {
public:
  StageRun(const StageMessages &all, const std::vector<std::vector<plan::Group>> &groups, size_t program)
      : all_(all), groups_(groups), program_(program), at_(all.ends_.size()) {}

  Status run() {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < at_.size(); ++rank)
      if (!all_.alike_ || all_.stages_.placeOf(rank) == 0)
        ranks.push_back(rank);
    ready_ = ranks;
    while (!ready_.empty()) {
      const uint32_t rank = ready_.back();
      ready_.pop_back();
      TESSERA_RETURN_IF_ERROR(advance(rank));
    }
    for (uint32_t rank : ranks)
      if (!done(rank))
        return stuck(rank);
    for (const auto &[link, messages] : sent_)
      if (!messages.empty())
        return counts(link, messages.front().at, messages.front().call);
    return Status();
  }

private:
  using Kind = StageMessages::Kind;
  using Event = StageMessages::Event;
  using Link = std::tuple<uint32_t, uint32_t, uint32_t>; // sender, receiver, channel
  struct Place {
    uint32_t call = 0, event = 0, message = 0; // of the event's messages
  };
  struct Message {
    uint32_t contents = 0, index = 0;
    const Event *at = nullptr; // where it was sent
    uint32_t call = 0;
  };

  const StageMessages::Flow &flowOf(uint32_t rank) const { return all_.flows_[all_.stages_.of(rank)][program_]; }
  const SectionCall &callOf(uint32_t rank) const { return flowOf(rank).order.calls()[at_[rank].call]; }
  const Event &eventOf(uint32_t rank) const { return flowOf(rank).sections[callOf(rank).section][at_[rank].event]; }
  const std::vector<StageMessages::End> &endsOf(uint32_t rank) const {
    return all_.ends_[rank][program_][callOf(rank).section][at_[rank].event];
  }
  /// The message for which a rank waits at a receive.
  const StageMessages::End &endOf(uint32_t rank) const { return endsOf(rank)[at_[rank].message]; }

  /// Whether the rank has nothing left to do; goes over calls without events.
  bool done(uint32_t rank) {
    const StageMessages::Flow &flow = flowOf(rank);
    while (at_[rank].call < flow.order.calls().size() && at_[rank].event >= flow.sections[callOf(rank).section].size())
      at_[rank] = {at_[rank].call + 1, 0, 0};
    return at_[rank].call >= flow.order.calls().size();
  }

  Link incoming(uint32_t rank) const { return {endOf(rank).peer, rank, eventOf(rank).number}; }

  /// Runs a rank until it waits or ends.
  Status advance(uint32_t rank) {
    for (; !done(rank); at_[rank] = {at_[rank].call, at_[rank].event + 1, 0}) {
      const Event &event = eventOf(rank);
      if (event.kind == Kind::Send) {
        for (const StageMessages::End &end : endsOf(rank))
          send(rank, event, end);
      } else if (event.kind == Kind::Receive) {
        for (uint32_t &next = at_[rank].message; next < endsOf(rank).size(); ++next) {
          std::deque<Message> &messages = sent_[incoming(rank)];
          if (messages.empty())
            return Status();
          TESSERA_RETURN_IF_ERROR(compare(rank, messages.front()));
          messages.pop_front();
        }
      } else if (!all_.alike_ && !meet(rank, event.number)) {
        return Status();
      }
    }
    return Status();
  }

  void send(uint32_t rank, const Event &event, const StageMessages::End &end) {
    sent_[{rank, end.peer, event.number}].push_back({end.contents, callOf(rank).index, &event, at_[rank].call});
    if (!done(end.peer) && eventOf(end.peer).kind == Kind::Receive &&
        incoming(end.peer) == Link(rank, end.peer, event.number))
      ready_.push_back(end.peer);
  }

  /// Whether this rank is the last to come to a collective; then the others go on, too.
  bool meet(uint32_t rank, uint32_t group) {
    const plan::Group &members = groups_[rank][group];
    std::vector<uint32_t> &here = meeting_[{group, members.ranks(0)}];
    if (std::ranges::find(here, rank) == here.end())
      here.push_back(rank);
    if (int(here.size()) < members.ranks_size())
      return false;
    for (uint32_t other : here)
      if (other != rank) {
        at_[other] = {at_[other].call, at_[other].event + 1, 0};
        ready_.push_back(other);
      }
    here.clear();
    return true;
  }

  std::string where(uint32_t rank, const Event &event, uint32_t call) const {
    const StageMessages::Flow &flow = flowOf(rank);
    const std::string micro = flow.order.callText({event.step, flow.order.calls()[call].index});
    return "rank " + std::to_string(rank) + ": step " + std::to_string(event.step) + " " + quoted(event.name) +
           " of program " + quoted(flow.program) + (micro.empty() ? "" : ", " + micro + ",");
  }
  std::string here(uint32_t rank) const { return where(rank, eventOf(rank), at_[rank].call); }
  static std::string channelText(uint32_t peer, uint32_t channel) {
    return "rank " + std::to_string(peer) + " on channel " + std::to_string(channel);
  }
  std::string contentsText(uint32_t number) const {
    const auto &[shape, type] = *all_.contents_[number];
    return typeName(type) + " " + shapeText(shape);
  }

  Status compare(uint32_t rank, const Message &message) const {
    const StageMessages::End &end = endOf(rank);
    const std::string what = here(rank) + " receives ", from = " from " + channelText(end.peer, eventOf(rank).number);
    const std::string sender = quoted(message.at->name) + " sends ";
    if (message.contents != end.contents)
      return Status::error(what + contentsText(end.contents) + from + ", where " + sender +
                           contentsText(message.contents));
    if (message.index != callOf(rank).index)
      return Status::error(what + "what belongs to index " + std::to_string(callOf(rank).index) + from + ", where " +
                           sender + "what belongs to index " + std::to_string(message.index));
    return Status();
  }

  /// How often a rank uses a link in a whole run.
  uint64_t uses(uint32_t rank, Kind kind, uint32_t peer, uint32_t channel) const {
    uint64_t count = 0;
    const StageMessages::Flow &flow = flowOf(rank);
    for (size_t s = 0; s < flow.sections.size(); ++s)
      for (size_t e = 0; e < flow.sections[s].size(); ++e)
        if (flow.sections[s][e].kind == kind && flow.sections[s][e].number == channel)
          for (const StageMessages::End &end : all_.ends_[rank][program_][s][e])
            count += end.peer == peer ? flow.order.sections()[s].calls : 0;
    return count;
  }

  /// An error if a link is used more often at one end than at the other.
  Status counts(const Link &link, const Event *sent, uint32_t call) const {
    const auto [from, to, channel] = link;
    const uint64_t sends = uses(from, Kind::Send, to, channel), receives = uses(to, Kind::Receive, from, channel);
    if (sends == receives)
      return Status();
    if (sent)
      return Status::error(where(from, *sent, call) + " sends to " + channelText(to, channel) + ": " +
                           std::to_string(sends) + " times in a run, where that rank receives " +
                           std::to_string(receives) + " times");
    return Status::error(here(to) + " receives from " + channelText(from, channel) + ": " + std::to_string(receives) +
                         " times in a run, where that rank sends " + std::to_string(sends) + " times");
  }

  /// Why a rank waits for ever: follows whom it waits for until a rank comes twice.
  Status stuck(uint32_t rank) {
    std::vector<uint32_t> chain;
    while (!done(rank) && std::ranges::find(chain, rank) == chain.end()) {
      chain.push_back(rank);
      if (eventOf(rank).kind == Kind::Receive) {
        TESSERA_RETURN_IF_ERROR(counts(incoming(rank), nullptr, 0));
        rank = endOf(rank).peer;
      } else { // a member that has not come
        const plan::Group &members = groups_[rank][eventOf(rank).number];
        const std::vector<uint32_t> &came = meeting_[{eventOf(rank).number, members.ranks(0)}];
        rank = *std::ranges::find_if(members.ranks(),
                                     [&](uint32_t member) { return std::ranges::find(came, member) == came.end(); });
      }
    }
    std::string text = "the ranks wait for each other for ever";
    for (auto it = std::ranges::find(chain, rank); it != chain.end(); ++it)
      text +=
          std::string(*it == rank ? ": " : "; ") + here(*it) +
          (eventOf(*it).kind == Kind::Receive ? " receives from " + channelText(endOf(*it).peer, eventOf(*it).number)
                                              : std::string(" is a collective"));
    return Status::error(text);
  }

  const StageMessages &all_;
  const std::vector<std::vector<plan::Group>> &groups_;
  const size_t program_;
  std::vector<Place> at_;       // by rank
  std::vector<uint32_t> ready_; // ranks that may go on
  std::map<Link, std::deque<Message>> sent_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> meeting_; // by group and first member: who waits
};

Status StageMessages::finish(const std::vector<std::vector<plan::Group>> &groups) const {
  for (size_t p = 0; !flows_.empty() && p < flows_[0].size(); ++p)
    TESSERA_RETURN_IF_ERROR(StageRun(*this, groups, p).run());
  return Status();
}

} // namespace tessera::rt
