// Exchanges in plans: good ones pass, and every spoiled one is refused for its reason.
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "test/unit/plan/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

/// Rows become columns on two ranks, and what is left of the input (a row) stays: [3, 4] on each becomes [4, 2].
plan::Plan exchangePlan(uint32_t rank) {
  PlanBuilder b(rank, 2);
  b.plan.set_version(2);
  b.bind(plan::INPUT, "x", b.buffer("x", {3, 4}), {6, 4}, {rank * 3, 0});
  b.buffer("y", {4, 2});
  plan::Collective *c = b.collective("move", plan::EXCHANGE, 0, 1);
  for (uint32_t peer : {0u, 1u}) {
    *c->add_sends() = peerBox(peer, {0, 2 * peer}, {2, 2});
    *c->add_receives() = peerBox(peer, {2 * peer, 0}, {2, 2});
  }
  return b.plan;
}

plan::Collective &exchange(plan::Plan &p) { return *p.mutable_programs(0)->mutable_steps(0)->mutable_collective(); }
plan::PeerBox &sent(plan::Plan &p, int i) { return *exchange(p).mutable_sends(i); }
plan::PeerBox &received(plan::Plan &p, int i) { return *exchange(p).mutable_receives(i); }

struct Case {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message; // a part of it
};

const std::vector<Case> kOneRank = {
    {"old version", [](auto &p) { p.set_version(1); }, "uses what version 2 has brought"},
    {"unknown receiver", [](auto &p) { sent(p, 0).set_peer(2); },
     "sends to member 2, which a group of 2 does not have"},
    {"unknown sender", [](auto &p) { received(p, 1).set_peer(~0u); }, "receives from member 4294967295, which"},
    {"sends beyond the input", [](auto &p) { sent(p, 1).set_offset(0, 2); }, "not inside buffer 0 'x' of shape [3, 4]"},
    {"sends from before it", [](auto &p) { sent(p, 1).set_offset(1, -1); }, "not inside buffer 0 'x'"},
    {"sends nothing", [](auto &p) { sent(p, 1).set_shape(0, 0); }, "not inside buffer 0 'x'"},
    {"overflows", [](auto &p) { sent(p, 0).set_offset(0, INT64_MAX), sent(p, 0).set_shape(0, INT64_MAX); },
     "not inside buffer 0 'x'"},
    {"a box of fewer dimensions", [](auto &p) { sent(p, 0).mutable_shape()->RemoveLast(); }, "not inside buffer 0"},
    {"receives beyond the output", [](auto &p) { received(p, 1).set_offset(0, 3); }, "not inside buffer 1 'y'"},
    {"a hole", [](auto &p) { exchange(p).mutable_receives()->RemoveLast(); },
     "does not cover buffer 1 'y': the blocks hold 4 elements of the global shape [4, 2]"},
    {"twice in one place", [](auto &p) { received(p, 1).set_offset(0, 0); }, "overlap"},
    {"half over another", [](auto &p) { received(p, 1).set_offset(0, 1); }, "overlap"},
    {"another number of dimensions",
     [](auto &p) {
       p.mutable_buffers(1)->clear_shape();
       p.mutable_buffers(1)->add_shape(8);
     },
     "different numbers of dimensions"},
    {"another type", [](auto &p) { p.mutable_buffers(1)->set_dtype(plan::I32); }, "different types"},
    {"with a reduction", [](auto &p) { exchange(p).set_reduction(plan::SUM); }, "has a reduction"},
    {"in place", [](auto &p) { p.mutable_buffers(1)->set_offset(0); }, "overlaps the input"},
    {"boxes of another kind", [](auto &p) { exchange(p).set_kind(plan::BROADCAST); },
     "broadcast: has boxes, which only an exchange has"},
};

const std::vector<Case> kAllRanks = {
    {"more is sent",
     [](auto &p) {
       *exchange(p).add_sends() = peerBox(0, {2, 0}, {1, 1});
     },
     "rank 1 sends 2 boxes to rank 0, which receives 1 from it"},
    {"less is sent", [](auto &p) { exchange(p).mutable_sends()->DeleteSubrange(0, 1); },
     "rank 0 receives a box from rank 1, which sends it none"},
    {"unexpected", [](auto &p) { received(p, 0).set_peer(1), received(p, 1).set_peer(1); },
     "rank 1 sends 1 boxes to rank 1, which receives 2 from it"},
    {"another shape", [](auto &p) { sent(p, 0).set_shape(0, 1); },
     "rank 1 sends a box of shape [1, 2] to rank 0, which receives [2, 2]"},
    {"another shape of as many elements", [](auto &p) { sent(p, 0).set_shape(0, 1), sent(p, 0).set_shape(1, 4); },
     "which receives [2, 2]"},
    {"a copy of another shape", [](auto &p) { sent(p, 1).set_shape(0, 1); },
     "rank 1 sends a box of shape [1, 2] to rank 1"},
    {"another kind",
     [](auto &p) {
       exchange(p).Clear();
       exchange(p).set_kind(plan::BROADCAST);
       exchange(p).set_output(1);
       p.mutable_buffers(1)->mutable_shape()->CopyFrom(p.buffers(0).shape());
     },
     "differs in kind (exchange and broadcast)"},
};

} // namespace

TEST_CASE("an exchange that covers the output passes") {
  std::vector<plan::Plan> plans = {exchangePlan(0), exchangePlan(1)};
  for (const plan::Plan &p : plans)
    CHECK(checkPlan(p).message() == "");
  CHECK(checkPlans(plans).message() == "");
  CHECK(bytesSent(plans[0], plans[0].programs(0).steps(0).collective()) == 16); // half of what it sends is its own
}

TEST_CASE("a spoiled exchange is refused for its reason") {
  for (const Case &c : kOneRank) {
    plan::Plan p = exchangePlan(1);
    c.spoil(p);
    const std::string message = checkPlan(p).message();
    INFO(c.name << ": " << message);
    CHECK(message.find(c.message) != std::string::npos);
    CHECK(message.find("rank 1") == 0);
  }
}

TEST_CASE("exchanges whose ranks do not fit together are refused for their reason") {
  for (const Case &c : kAllRanks) {
    std::vector<plan::Plan> plans = {exchangePlan(0), exchangePlan(1)};
    c.spoil(plans[1]);
    const std::string message = checkPlans(plans).message();
    INFO(c.name << ": " << message);
    CHECK(message.find(c.message) != std::string::npos);
    PlansChecker checker; // which checks equal steps once
    std::string other;
    for (const plan::Plan &p : plans)
      if (tessera::rt::Status status = checker.add(p, serialize(p)); !status && other.empty())
        other = status.message();
    if (other.empty())
      other = checker.finish().message();
    INFO(other);
    CHECK(other.find(c.message) != std::string::npos);
  }
}

TEST_CASE("a step that is the same on two ranks is not the same exchange") {
  std::vector<plan::Plan> plans = {exchangePlan(0), exchangePlan(1)};
  exchange(plans[1]) = exchange(plans[0]); // the good one, in which both ranks do the same
  CHECK(checkPlans(plans).ok());
  for (plan::Plan &p : plans) { // both send to member 0 only, and receive from it only
    sent(p, 1).set_peer(0);
    received(p, 1).set_peer(0);
  }
  PlansChecker checker;
  for (const plan::Plan &p : plans)
    CHECK(checker.add(p, serialize(p)).ok());
  CHECK(checker.finish().message().find("rank 1") != std::string::npos);
}
