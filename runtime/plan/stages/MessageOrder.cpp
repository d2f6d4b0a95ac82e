#include "runtime/plan/stages/MessageOrder.h"

#include "runtime/plan/stages/Stages.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tessera::rt {
namespace {

enum Kind : int64_t { kSend, kReceive, kCollective };

/// A step that other ranks have a part in; collectives of one group behind each other count as one.
struct Meeting {
  int64_t kind = kSend, kernels = 0; // kernels: before it, since the meeting before
  int64_t step = 0, channel = 0;
  std::vector<int64_t> ranks; // the peers, or the members of the group
};
struct Part {
  std::vector<Meeting> meetings; // of a section
  int64_t kernels = 0;           // behind the last one
};

std::vector<Part> partsOf(const plan::Plan &plan, const plan::Program &program, const TimeOrder &order) {
  std::vector<Part> parts;
  for (const Section &section : order.sections()) {
    Part &part = parts.emplace_back();
    for (uint32_t s = section.begin; s < section.end; ++s) {
      const plan::Step &step = program.steps(int(s));
      Meeting next;
      next.step = s;
      if (step.has_collective()) {
        const auto &ranks = plan.groups(int(step.collective().group())).ranks();
        next.kind = kCollective;
        next.ranks.assign(ranks.begin(), ranks.end());
      } else {
        next.kind = step.has_send() ? kSend : kReceive;
        next.channel = step.has_send() ? step.send().channel() : step.receive().channel();
        for (const PeerMessage &message : peerMessages(plan, step))
          next.ranks.push_back(message.peer);
      }
      if (next.ranks.size() <= size_t(next.kind == kCollective)) { // nobody else
        part.kernels += step.has_kernel();
        continue;
      }
      next.kernels = std::exchange(part.kernels, 0);
      if (Meeting *last = part.meetings.empty() ? nullptr : &part.meetings.back();
          last && next.kind == kCollective && last->kind == kCollective && last->ranks == next.ranks) {
        last->step = next.step;
        last->kernels += next.kernels;
      } else {
        part.meetings.push_back(std::move(next));
      }
    }
  }
  return parts;
}

/// A rank in the run that gives the order.
struct Rank {
  std::vector<Part> parts;
  std::vector<SectionCall> calls;
  size_t call = 0, meeting = 0;
  int64_t time = 0;
  StepInTime last; // the meeting that it has had

  bool done() const { return call == calls.size(); }
  const Part &part() const { return parts[calls[call].section]; }
  const Meeting &next() const { return part().meetings[meeting]; }
  /// To the next meeting, in a call that has one.
  void settle() {
    while (!done() && meeting == part().meetings.size()) {
      time += part().kernels;
      ++call;
      meeting = 0;
    }
  }
  int64_t arrives() const { return time + next().kernels + 1; } // the meeting takes as long as a kernel
  void goOn(int64_t now) {
    last = {uint32_t(next().step), calls[call].index};
    time = now;
    ++meeting;
    settle();
  }
};

/// Reads what meetingsOf wrote; false if it did not.
class Reader {
public:
  explicit Reader(const std::vector<int64_t> &from) : from_(from) {}
  bool read(Rank &rank) {
    rank.parts.resize(count());
    for (Part &part : rank.parts) {
      part.kernels = number();
      part.meetings.resize(count());
      for (Meeting &m : part.meetings) {
        for (int64_t *field : {&m.kind, &m.kernels, &m.step, &m.channel})
          *field = number();
        m.ranks.resize(count());
        for (int64_t &peer : m.ranks)
          peer = number();
      }
    }
    rank.calls.resize(count());
    for (SectionCall &call : rank.calls) {
      call.section = uint32_t(number());
      call.index = uint32_t(number());
      good_ = good_ && call.section < rank.parts.size();
    }
    return good_;
  }

private:
  int64_t number() {
    good_ = good_ && at_ < from_.size();
    return good_ ? from_[at_++] : 0;
  }
  size_t count() {
    const int64_t n = number();
    good_ = good_ && n >= 0 && size_t(n) <= from_.size();
    return good_ ? size_t(n) : 0;
  }
  const std::vector<int64_t> &from_;
  size_t at_ = 0;
  bool good_ = true;
};

class Run {
public:
  Run(std::vector<Rank> ranks, int me) : ranks_(std::move(ranks)), me_(size_t(me)) {}

  Result<std::vector<Departure>> departures() {
    for (Rank &rank : ranks_)
      rank.settle();
    for (size_t r = 0; r < ranks_.size(); ++r)
      arrive(r);
    while (!ready_.empty()) {
      const auto [time, sent, rank] = *ready_.begin();
      ready_.erase(ready_.begin());
      meet(rank, time);
    }
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (!ranks_[r].done())
        return Status::error("rank " + std::to_string(r) + " waits for other ranks for ever: at step " +
                             std::to_string(ranks_[r].next().step));
    return std::move(departures_);
  }

private:
  struct Sent {
    int64_t time;
    Departure message; // `after` is not known yet
  };
  using Wire = std::tuple<size_t, size_t, int64_t>; // from, to, channel

  /// A rank has come to its next meeting, or something that it waits for there has come.
  void arrive(size_t r) {
    if (ranks_[r].done())
      return;
    const Meeting &next = ranks_[r].next();
    int64_t time = ranks_[r].arrives(), sent = time;
    if (next.kind == kReceive) {
      for (int64_t peer : next.ranks) {
        const auto wire = wires_.find({size_t(peer), r, next.channel});
        if (wire == wires_.end() || wire->second.empty())
          return;
        time = std::max(time, sent = wire->second.front().time);
      }
    } else if (next.kind == kCollective) {
      for (int64_t member : next.ranks) {
        const Rank &other = ranks_[size_t(member)];
        if (other.done() || other.next().kind != kCollective || other.next().ranks != next.ranks)
          return;
        time = std::max(time, other.arrives());
      }
      sent = time;
      r = size_t(next.ranks.front()); // it stands for all members
    }
    ready_.insert({time, sent, r}); // what was sent first goes first
  }

  void meet(size_t r, int64_t now) {
    Rank &rank = ranks_[r];
    const Meeting &next = rank.next();
    const StepInTime at{uint32_t(next.step), rank.calls[rank.call].index};
    if (next.kind == kCollective) {
      const std::vector<int64_t> members = next.ranks;
      for (int64_t member : members)
        ranks_[size_t(member)].goOn(now);
      for (int64_t member : members)
        arrive(size_t(member));
      return;
    }
    std::vector<size_t> waiting;
    for (uint32_t m = 0; m < next.ranks.size(); ++m) {
      const auto peer = size_t(next.ranks[m]);
      if (next.kind == kSend) {
        std::deque<Sent> &wire = wires_[{r, peer, next.channel}];
        wire.push_back({now, {{}, at, m}});
        if (const Rank &other = ranks_[peer]; wire.size() == 1 && !other.done() && other.next().kind == kReceive)
          waiting.push_back(peer);
      } else {
        std::deque<Sent> &wire = wires_[{peer, r, next.channel}];
        if (peer == me_) {
          departures_.push_back(wire.front().message);
          departures_.back().after = ranks_[peer].last;
        }
        wire.pop_front();
      }
    }
    rank.goOn(now);
    for (size_t peer : waiting)
      arrive(peer);
    arrive(r);
  }

  std::vector<Rank> ranks_;
  size_t me_;
  std::map<Wire, std::deque<Sent>> wires_;
  std::set<std::tuple<int64_t, int64_t, size_t>> ready_; // when, since when, rank
  std::vector<Departure> departures_;
};

} // namespace

std::vector<int64_t> meetingsOf(const plan::Plan &plan, const plan::Program &program) {
  const TimeOrder order(program);
  const std::vector<Part> parts = partsOf(plan, program, order);
  std::vector<int64_t> numbers = {int64_t(parts.size())};
  for (const Part &part : parts) {
    numbers.insert(numbers.end(), {part.kernels, int64_t(part.meetings.size())});
    for (const Meeting &m : part.meetings) {
      numbers.insert(numbers.end(), {m.kind, m.kernels, m.step, m.channel, int64_t(m.ranks.size())});
      numbers.insert(numbers.end(), m.ranks.begin(), m.ranks.end());
    }
  }
  numbers.push_back(int64_t(order.calls().size()));
  for (const SectionCall &call : order.calls())
    numbers.insert(numbers.end(), {call.section, call.index});
  return numbers;
}

Result<std::vector<Departure>> departures(const std::vector<std::vector<int64_t>> &meetings, int me) {
  std::vector<Rank> ranks(meetings.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    bool good = Reader(meetings[r]).read(ranks[r]);
    for (const Part &part : ranks[r].parts)
      for (const Meeting &m : part.meetings)
        good = good &&
               std::ranges::all_of(m.ranks, [&](int64_t peer) { return peer >= 0 && size_t(peer) < ranks.size(); });
    if (!good)
      return Status::error("rank " + std::to_string(r) + " does not say what it does with other ranks");
  }
  return Run(std::move(ranks), me).departures();
}

} // namespace tessera::rt
