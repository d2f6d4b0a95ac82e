// Sections and their calls: what runs when, and the checker on them. Each case spoils one thing of a good plan.
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/TimeOrder.h"
#include "test/unit/plan/LoopPlan.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>

using namespace tessera::rt;
namespace plan = tessera::plan;
using P = LoopPlan;

namespace {

plan::Program &program(plan::Plan &p) { return *p.mutable_programs(0); }
plan::Kernel &kernel(plan::Plan &p, int s) { return *program(p).mutable_steps(s)->mutable_kernel(); }

std::vector<plan::Plan> loops(uint32_t ranks, int parts) {
  std::vector<plan::Plan> plans;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    plans.push_back(P::make(rank, ranks, parts, true));
  return plans;
}

struct Case {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message;
};

const std::vector<Case> kOneRank = {
    {"an old version", [](auto &p) { p.set_version(1); }, "uses what version 2 has brought"},
    {"ends out of order", [](auto &p) { program(p).set_section_ends(0, P::kEnd + 1); },
     "section 1 ends before step 11, the one before it only before step 13"},
    {"steps behind the last section", [](auto &p) { program(p).mutable_section_ends()->RemoveLast(); },
     "the last section ends before step 11 of 12"},
    {"a section behind the steps", [](auto &p) { program(p).set_section_ends(2, 99); },
     "the last section ends before step 99 of 12"},
    {"no such section", [](auto &p) { program(p).mutable_calls(2)->set_section(3); },
     "section 3 is called, but there are 3"},
    {"calls without sections", [](auto &p) { program(p).clear_section_ends(); },
     "section 1 is called, but there are 1"},
    {"no such micro-batch", [](auto &p) { program(p).mutable_calls(2)->set_index(4); },
     "section 1 is called with index 4, but its step 2 'xi' knows 4 parts"},
    {"fewer parts in one kernel", [](auto &p) { kernel(p, P::NUMBER).mutable_attributes(0)->set_i(3); },
     "section 1 is called with index 3, but its step 3 'ki' knows 3 parts"},
    {"no parts", [](auto &p) { kernel(p, P::ROWS).clear_attributes(); }, "knows 0 parts"},
    {"parts that are none", [](auto &p) { kernel(p, P::ROWS).mutable_attributes(0)->set_s("4"); }, "knows 0 parts"},
    {"negative parts", [](auto &p) { kernel(p, P::ROWS).mutable_attributes(0)->set_i(-4); }, "knows -4 parts"},
    {"too many steps",
     [](auto &p) {
       for (int i = 0; i < 2000000; ++i)
         P::call(program(p), 1, 0);
     },
     "steps, more than 16777216"},
    {"a message over a section's end", [](auto &p) { program(p).set_section_ends(0, P::SUM_Z); },
     "more than there are behind it in its section"},
    {"the body before what it needs", [](auto &p) { program(p).mutable_calls()->SwapElements(0, 1); },
     "step 4 'y' of program 'train', micro-batch 1 of 4: reads buffer 4 's', which nothing has written"},
    {"nothing is computed", [](auto &p) { program(p).mutable_calls()->RemoveLast(); }, "the end of program 'train'"},
    {"a begin value that the body overwrites",
     [](auto &p) { p.mutable_buffers(P::S)->set_offset(p.buffers(P::Z).offset()); },
     "step 4 'y' of program 'train', micro-batch 2 of 4: reads buffer 4 's', which buffer 10 'z' has overwritten"},
    {"an accumulator that the body overwrites",
     [](auto &p) { p.mutable_buffers(P::ACC)->set_offset(p.buffers(P::XI).offset()); },
     "step 9 'acc.add' of program 'train', micro-batch 1 of 4: reads buffer 5 'acc', which buffer 6 'xi'"},
    {"a sum that is not in place",
     [](auto &p) {
       *p.add_buffers() = p.buffers(P::ACC);
       kernel(p, P::ADD).set_outputs(0, uint32_t(p.buffers_size() - 1));
       kernel(p, P::LAST).set_inputs(0, uint32_t(p.buffers_size() - 1));
     },
     "step 9 'acc.add' of program 'train', micro-batch 2 of 4: reads buffer 5 'acc'"},
};

const std::vector<Case> kAllRanks = {
    {"other sections", [](auto &p) { program(p).set_section_ends(0, 1); }, "differ in sections or their calls"},
    {"a call more", [](auto &p) { P::call(program(p), 1, 0); }, "differ in sections or their calls"},
    {"another index", [](auto &p) { program(p).mutable_calls(1)->set_index(1); }, "differ in sections or their calls"},
    {"another order of calls", [](auto &p) { program(p).mutable_calls()->SwapElements(1, 2); },
     "differ in sections or their calls"},
};

std::vector<std::pair<uint32_t, uint32_t>> walk(const TimeOrder &order) {
  std::vector<std::pair<uint32_t, uint32_t>> steps;
  for (const StepInTime at : order)
    steps.emplace_back(at.step, at.index);
  return steps;
}

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

} // namespace

TEST_CASE("without sections every step runs once") {
  plan::Program p;
  CHECK(walk(TimeOrder(p)).empty());
  CHECK(TimeOrder(p).text() == "0 steps");
  for (int s = 0; s < 3; ++s)
    p.add_steps();
  const TimeOrder order(p);
  CHECK(walk(order) == Pairs{{0, 0}, {1, 0}, {2, 0}});
  CHECK(order.size() == 3);
  CHECK_FALSE(order.repeats());
  CHECK(order.timesOf(2) == 1);
  CHECK(order.callText({1, 0}).empty());
  CHECK(order.text() == "3 steps");
}

TEST_CASE("sections run as they are called") {
  plan::Program p;
  for (int s = 0; s < 4; ++s)
    p.add_steps();
  for (uint32_t end : {1u, 1u, 3u, 4u, 4u}) // the second and the last have no steps
    p.add_section_ends(end);
  CHECK(walk(TimeOrder(p)) == Pairs{{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  for (auto [section, index] : Pairs{{1, 0}, {0, 0}, {2, 0}, {1, 0}, {2, 5}, {4, 0}, {4, 0}})
    P::call(p, section, index);
  const TimeOrder order(p);
  CHECK(walk(order) == Pairs{{0, 0}, {1, 0}, {2, 0}, {1, 5}, {2, 5}});
  CHECK(order.size() == 5);
  CHECK(order.repeats());
  CHECK(order.timesOf(2) == 2);
  CHECK(order.timesOf(3) == 0);
  CHECK(order.callText({1, 5}) == "micro-batch 6 of 2");
  CHECK(order.callText({0, 0}).empty());
  CHECK(order.text() == "1 + 0 x 2 + 2 x 2 + 1 x 0 + 0 x 2 steps");
}

TEST_CASE("good loops pass, with any number of micro-batches") {
  for (int parts : {1, 2, 4, 1000}) {
    std::vector<plan::Plan> plans = loops(2, parts);
    for (const plan::Plan &p : plans)
      CHECK(checkPlan(p).message() == "");
    CHECK(checkPlans(plans).message() == "");
    CHECK(neededVersion(plans[0]) == 2);
    CHECK(checkPlan(P::make(0, 2, parts, false)).message() == "");
    CHECK(neededVersion(P::make(0, 2, parts, false)) == 1);
  }
}

TEST_CASE("every spoiled loop is refused for its reason") {
  for (const Case &c : kOneRank) {
    plan::Plan p = P::make(1, 2, 4, true);
    c.spoil(p);
    const std::string message = checkPlan(p).message();
    INFO(c.name << ": " << message);
    CHECK(message.find(c.message) != std::string::npos);
    CHECK(message.find("rank 1: ") == 0);
    std::vector<plan::Plan> plans = loops(2, 4);
    PlansChecker checker; // however much of it is like the first rank's
    REQUIRE(checker.add(plans[0], serialize(plans[0])).ok());
    CHECK(checker.add(p, serialize(p)).message() == message);
  }
}

TEST_CASE("ranks that call their sections differently are refused") {
  for (const Case &c : kAllRanks) {
    std::vector<plan::Plan> plans = loops(2, 4);
    c.spoil(plans[1]);
    const std::string message = checkPlans(plans).message();
    INFO(c.name << ": " << message);
    CHECK(message.find(c.message) != std::string::npos);
    PlansChecker checker;
    REQUIRE(checker.add(plans[0], serialize(plans[0])).ok());
    REQUIRE_FALSE((checker.add(plans[1], serialize(plans[1])).ok() && checker.finish().ok()));
  }
}

TEST_CASE("calls that prove nothing new are not walked again") {
  // A body of many steps, called a great many times: walking all of it would take minutes.
  PlanBuilder b(0, 1);
  const uint32_t x = b.buffer("x", {2}), y = b.buffer("y", {2});
  b.bind(plan::INPUT, "x", x, {2}, {0});
  b.bind(plan::OUTPUT, "y", y, {2}, {0});
  constexpr int kSteps = 4000;
  for (int s = 0; s < kSteps; ++s)
    b.kernel("k", "neg", {x}, {y});
  plan::Program &p = program(b.plan);
  p.add_section_ends(kSteps);
  for (int i = 0; i < 4000; ++i)
    P::call(p, 0, 0);
  b.plan.set_version(2);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(checkPlan(b.plan).message() == "");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
}

TEST_CASE("a loop whose states alternate is proved whole") {
  // Each call of the second section swaps what the two names of one place mean; a and b take turns.
  PlanBuilder b(0, 1);
  const uint32_t x = b.buffer("x", {2}), a = b.buffer("a", {2}), c = b.over("c", {2}, a), y = b.buffer("y", {2});
  b.bind(plan::INPUT, "x", x, {2}, {0});
  b.bind(plan::OUTPUT, "y", y, {2}, {0});
  for (int s = 0; s < 8; ++s) {
    b.kernel("a", "neg", {x}, {a});
    b.kernel("y", "neg", {a}, {y});
  }
  for (int s = 0; s < 8; ++s) {
    b.kernel("c", "neg", {x}, {c});
    b.kernel("y", "neg", {c}, {y});
  }
  for (int s = 0; s < 8; ++s) // reads a, which only the first section leaves behind
    b.kernel("y", "neg", {a}, {y});
  plan::Program &p = program(b.plan);
  for (uint32_t end : {16u, 32u, 40u})
    p.add_section_ends(end);
  for (int i = 0; i < 6; ++i)
    P::call(p, uint32_t(i % 2), uint32_t(i / 2));
  P::call(p, 0, 3);
  P::call(p, 2, 0);
  b.plan.set_version(2);
  CHECK(checkPlan(b.plan).message() == "");
  p.mutable_calls()->SwapElements(6, 5); // now the second section runs last
  CHECK(checkPlan(b.plan).message().find("reads buffer 1 'a', which buffer 2 'c' has overwritten") !=
        std::string::npos);
}
