// Sends that wait for their receivers: in the order that ranks agree on, whatever ranks do with each other ends, and
// messages between two ranks meet in one order.
#include "runtime/plan/stages/MessageOrder.h"
#include "test/unit/plan/StagePlan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <tuple>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

using Channel = std::tuple<int, int, uint32_t>; // from, to

/// What a rank does with another one, as a device does it: one behind the other, and both ends together.
struct Operation {
  bool sends = false;
  int peer = 0;
  uint32_t channel = 0;
  int64_t number = 0; // of the message in its channel
};

std::vector<std::vector<int64_t>> meetingsOfAll(const std::vector<plan::Plan> &plans) {
  std::vector<std::vector<int64_t>> meetings;
  for (const plan::Plan &p : plans)
    meetings.push_back(meetingsOf(p, p.programs(0)));
  return meetings;
}

/// The operations of all ranks, if sends leave when `departures` says so.
std::vector<std::deque<Operation>> operations(const std::vector<plan::Plan> &plans) {
  std::vector<std::vector<int64_t>> meetings = meetingsOfAll(plans);
  std::vector<std::deque<Operation>> all(plans.size());
  for (int r = 0; r < int(plans.size()); ++r) {
    const plan::Plan &p = plans[size_t(r)];
    const Result<std::vector<Departure>> leaving = departures(meetings, r);
    REQUIRE(leaving.ok());
    std::map<Channel, int64_t> sent, received;
    std::map<std::pair<uint32_t, uint32_t>, Operation> sends;
    size_t left = 0;
    for (const StepInTime at : TimeOrder(p.programs(0))) {
      const plan::Step &step = p.programs(0).steps(int(at.step));
      const auto &s = step.send();
      const auto &v = step.receive();
      if (step.has_send())
        sends[{at.step, at.index}] = {true, int(s.peer()), s.channel(), sent[{r, int(s.peer()), s.channel()}]++};
      if (step.has_receive())
        all[size_t(r)].push_back({false, int(v.peer()), v.channel(), received[{int(v.peer()), r, v.channel()}]++});
      for (; left < leaving->size() && (*leaving)[left].after == at; ++left) {
        const Departure &d = (*leaving)[left];
        REQUIRE(sends.contains({d.send.step, d.send.index})); // it has been made
        all[size_t(r)].push_back(sends.at({d.send.step, d.send.index}));
        sends.erase({d.send.step, d.send.index});
      }
    }
    CHECK(sends.empty()); // all have left
  }
  return all;
}

/// Lets both ends of a message meet where it is the next operation of both. Whether all are done in the end.
bool ends(std::vector<std::deque<Operation>> all) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < int(all.size()); ++r) {
      std::deque<Operation> &mine = all[size_t(r)];
      if (mine.empty() || !mine.front().sends)
        continue;
      std::deque<Operation> &other = all[size_t(mine.front().peer)];
      if (other.empty() || other.front().sends || other.front().peer != r)
        continue;
      REQUIRE(other.front().channel == mine.front().channel);
      REQUIRE(other.front().number == mine.front().number);
      mine.pop_front();
      other.pop_front();
      moved = true;
    }
  }
  return std::ranges::all_of(all, [](const auto &list) { return list.empty(); });
}

plan::Plan emptyPlan(uint32_t rank, uint32_t ranks) {
  PlanBuilder b(rank, ranks);
  b.plan.set_stages(ranks);
  b.buffer("x", {2});
  return b.plan;
}
void addSend(plan::Plan &p, int peer, uint32_t channel) {
  plan::Send *send = p.mutable_programs(0)->add_steps()->mutable_send();
  send->set_peer(uint32_t(peer));
  send->set_channel(channel);
}
void addReceive(plan::Plan &p, int peer, uint32_t channel) {
  plan::Receive *receive = p.mutable_programs(0)->add_steps()->mutable_receive();
  receive->set_peer(uint32_t(peer));
  receive->set_channel(channel);
}

} // namespace

TEST_CASE("a message that nobody takes yet leaves later") {
  std::vector<plan::Plan> plans = {emptyPlan(0, 2), emptyPlan(1, 2)};
  addSend(plans[0], 1, 0);
  addSend(plans[0], 1, 0);
  addReceive(plans[0], 1, 1);
  addReceive(plans[1], 0, 0);
  addSend(plans[1], 0, 1);
  addReceive(plans[1], 0, 0);
  std::vector<std::vector<int64_t>> meetings = meetingsOfAll(plans);
  CHECK(*departures(meetings, 0) == std::vector<Departure>{{{0, 0}, {0, 0}, 0}, {{2, 0}, {1, 0}, 0}});
  CHECK(*departures(meetings, 1) == std::vector<Departure>{{{1, 0}, {1, 0}, 0}});
  CHECK(ends(operations(plans)));
}

TEST_CASE("messages that are received in another order than they are sent") {
  std::vector<plan::Plan> plans = {emptyPlan(0, 2), emptyPlan(1, 2)};
  for (uint32_t channel : {0u, 1u, 2u})
    addSend(plans[0], 1, channel);
  for (uint32_t channel : {2u, 0u, 1u})
    addReceive(plans[1], 0, channel);
  CHECK(ends(operations(plans)));
}

TEST_CASE("whatever ends where sends wait for nobody ends on devices") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 2 + int(random() % 4);
    std::vector<plan::Plan> plans;
    for (int r = 0; r < ranks; ++r)
      plans.push_back(emptyPlan(uint32_t(r), uint32_t(ranks)));
    std::map<Channel, int> under; // way
    auto receive = [&](const Channel &wire) {
      const auto [from, to, channel] = wire;
      addReceive(plans[size_t(to)], from, channel);
      if (--under[wire] == 0)
        under.erase(wire);
    };
    for (int i = 0; i < 40; ++i) {
      if (random() % 2 && !under.empty()) {
        receive(std::next(under.begin(), int(random() % under.size()))->first);
        continue;
      }
      const int from = int(random() % unsigned(ranks)), to = (from + 1 + int(random() % unsigned(ranks - 1))) % ranks;
      const uint32_t channel = random() % 3;
      addSend(plans[size_t(from)], to, channel);
      ++under[{from, to, channel}];
      if (random() % 3 == 0)
        plans[size_t(from)].mutable_programs(0)->add_steps()->mutable_kernel();
    }
    while (!under.empty())
      receive(std::next(under.begin(), int(random() % under.size()))->first);
    CHECK(ends(operations(plans)));
  }
}

TEST_CASE("ranks that wait for each other for ever are named") {
  std::vector<plan::Plan> plans = {emptyPlan(0, 2), emptyPlan(1, 2)};
  addReceive(plans[0], 1, 0);
  addSend(plans[0], 1, 0);
  addReceive(plans[1], 0, 0);
  addSend(plans[1], 0, 0);
  std::vector<std::vector<int64_t>> meetings = meetingsOfAll(plans);
  CHECK_THAT(departures(meetings, 0).status().message(), Catch::Contains("rank 0 waits for other ranks for ever"));
  meetings[1].pop_back();
  CHECK_THAT(departures(meetings, 0).status().message(), Catch::Contains("rank 1 does not say"));
}

TEST_CASE("collectives of a stage are a part of the order") {
  for (uint32_t width : {1u, 2u})
    for (bool oneByOne : {true, false}) {
      const std::vector<plan::Plan> plans = StagePlan{width, 4, oneByOne}.plans();
      CHECK(ends(operations(plans)));
    }
}
