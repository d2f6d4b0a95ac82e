// The checker on collectives that run beside kernels: every wait that is taken out of a good plan is missed, and what
// the checker says of random steps is what all their orders say.
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/lanes/LaneOrder.h"
#include "runtime/plan/lanes/RunBeside.h"
#include "test/unit/plan/LanePlan.h"
#include "test/unit/plan/LoopPlan.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>

using namespace tessera::rt;
namespace plan = tessera::plan;
using P = LanePlan;

namespace {

struct Case {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message;
};

void addWait(plan::Plan &p, int step, uint32_t other) { P::step(p, step).add_waits(other); }

const std::vector<Case> kCases = {
    {"a sum that begins early", [](auto &p) { P::step(p, P::SUM_1).clear_waits(); },
     "step 1 'g1.sum' of program 'train': reads what step 0 'g1' writes, but may begin before that has ended"},
    {"memory in flight that is reused", [](auto &p) { P::step(p, P::REUSE).clear_waits(); },
     "step 4 'h' of program 'train': writes over what step 1 'g1.sum' uses"},
    {"a reader that begins early", [](auto &p) { P::step(p, P::UPDATE_2).clear_waits(); },
     "step 6 'u2' of program 'train': reads what step 3 'g2.sum' writes"},
    {"collectives of one group without an order",
     [](auto &p) {
       P::step(p, P::UPDATE_2).clear_waits();
       P::step(p, P::UPDATE_2).mutable_kernel()->set_inputs(0, P::S1);
     },
     "step 7 'last.sum' of program 'train': is a collective of the same group as step 3 'g2.sum'"},
    {"a kernel beside others", [](auto &p) { P::step(p, P::MAKE_2).set_resource(plan::COMMUNICATION); },
     "runs on the communication resource, but is no collective"},
    {"another resource", [](auto &p) { P::step(p, P::SUM_1).set_resource(plan::Resource(7)); },
     "runs on a resource that ranks do not have"},
    {"a wait for itself", [](auto &p) { addWait(p, P::SUM_1, P::SUM_1); }, "waits for step 1, which is not before it"},
    {"a wait for a later step", [](auto &p) { addWait(p, P::SUM_1, P::LAST_SUM); }, "waits for step 7, which is not"},
    {"a wait for no step", [](auto &p) { addWait(p, P::SUM_1, 99); }, "waits for step 99, which is not before it"},
    {"a wait twice", [](auto &p) { addWait(p, P::SUM_1, P::MAKE_1); }, "waits for step 0 out of order or twice"},
    {"a wait for the same resource", [](auto &p) { addWait(p, P::SUM_2, P::SUM_1); }, "out of order or twice"},
    {"a wait on one resource", [](auto &p) { addWait(p, P::UPDATE_1, P::MAKE_2); },
     "waits for step 2, which runs on the same resource"},
};

bool touch(const std::vector<LaneBytes> &a, const std::vector<LaneBytes> &b) {
  for (const LaneBytes &x : a)
    for (const LaneBytes &y : b)
      if (x.begin < y.end && y.begin < x.end)
        return true;
  return false;
}

/// Whether a pair of steps must take turns and has no chain of lanes and waits between them: what the header promises,
/// by the transitive closure.
bool anyUnordered(const std::vector<LaneStep> &steps) {
  const size_t n = steps.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t s = 0; s < n; ++s) {
    for (size_t r = 0; r < s; ++r)
      if (steps[r].lane == steps[s].lane || std::count(steps[s].waits.begin(), steps[s].waits.end(), uint32_t(r)))
        for (size_t q = 0; q <= r; ++q)
          if (q == r || before[q][r])
            before[q][s] = true;
    for (size_t r = 0; r < s; ++r) {
      const bool turns = touch(steps[r].writes, steps[s].reads) || touch(steps[r].writes, steps[s].writes) ||
                         touch(steps[r].reads, steps[s].writes) ||
                         (steps[r].group >= 0 && steps[r].group == steps[s].group);
      if (turns && !before[r][s])
        return true;
    }
  }
  return false;
}

} // namespace

TEST_CASE("collectives beside kernels pass, in a plan of the first version") {
  for (bool beside : {false, true}) {
    std::vector<plan::Plan> plans = {P::make(0, 2, beside), P::make(1, 2, beside)};
    CHECK(neededVersion(plans[0]) == kOldestPlanVersion);
    for (const plan::Plan &p : plans)
      CHECK(checkPlan(p).message() == "");
    CHECK(checkPlans(plans).message() == "");
    PlansChecker checker;
    for (const plan::Plan &p : plans)
      CHECK(checker.add(p, serialize(p)).message() == "");
    CHECK(checker.finish().message() == "");
  }
}

TEST_CASE("every spoiled resource or wait is refused for its reason") {
  for (const Case &c : kCases) {
    INFO(c.name);
    plan::Plan p = P::make(0, 2, true);
    c.spoil(p);
    const std::string message = checkPlan(p).message();
    INFO(message);
    CHECK(message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("every wait that is taken out is missed, on any rank") {
  const plan::Plan good = P::make(0, 2, true);
  int waits = 0;
  for (int s = 0; s < good.programs(0).steps_size(); ++s)
    for (int w = 0; w < good.programs(0).steps(s).waits_size(); ++w, ++waits) {
      INFO("step " << s << ", wait " << w);
      for (uint32_t rank : {0u, 1u}) {
        std::vector<plan::Plan> plans = {P::make(0, 2, true), P::make(1, 2, true)};
        auto &list = *P::step(plans[rank], s).mutable_waits();
        list.erase(list.begin() + w);
        CHECK_FALSE(checkPlan(plans[rank]).ok());
        PlansChecker checker;
        bool refused = false;
        for (const plan::Plan &p : plans)
          refused |= !checker.add(p, serialize(p)).ok();
        CHECK(refused);
      }
    }
  CHECK(waits == 4);
}

TEST_CASE("ranks that wait differently are refused") {
  std::vector<plan::Plan> plans = {P::make(0, 2, true), P::make(1, 2, true)};
  addWait(plans[1], P::UPDATE_1, P::SUM_1);
  REQUIRE(checkPlan(plans[1]).message() == "");
  CHECK(checkPlans(plans).message().find("run it on different resources, or wait for different steps") !=
        std::string::npos);
}

TEST_CASE("a section waits for nothing of another one") {
  plan::Plan p = P::make(0, 2, true);
  for (int end : {int(P::REUSE), int(P::LAST_SUM) + 1})
    p.mutable_programs(0)->add_section_ends(uint32_t(end));
  CHECK(checkPlan(p).message().find("step 4 'h' of program 'train': waits for step 1, which is not before it in its "
                                    "section") != std::string::npos);
  for (int s : {P::REUSE, P::UPDATE_2})
    P::step(p, s).clear_waits(); // the call of the first section has ended
  CHECK(checkPlan(p).message() == "");
}

TEST_CASE("members of a message share a resource, and the first one waits") {
  auto make = [](bool beside) {
    PlanBuilder b(0, 2);
    for (const char *name : {"x", "a", "b", "a.sum", "b.sum", "y"})
      b.buffer(name, {16});
    b.bind(plan::INPUT, "x", 0, {32}, {0});
    b.kernel("a", "relu", {0}, {1});
    b.kernel("b", "neg", {0}, {2});
    b.collective("a.sum", plan::ALL_REDUCE, 1, 3, plan::SUM)->set_joined(1);
    b.collective("b.sum", plan::ALL_REDUCE, 2, 4, plan::SUM);
    b.kernel("y", "add", {3, 4}, {5});
    for (int s : {2, 3})
      P::step(b.plan, s).set_resource(beside ? plan::COMMUNICATION : plan::COMPUTE);
    if (beside) {
      addWait(b.plan, 2, 1);
      addWait(b.plan, 4, 3);
    }
    return b.plan;
  };
  CHECK(checkPlan(make(false)).message() == "");
  CHECK(checkPlan(make(true)).message() == "");
  plan::Plan apart = make(true);
  P::step(apart, 3).set_resource(plan::COMPUTE);
  CHECK(checkPlan(apart).message().find("runs on another resource or waits for steps") != std::string::npos);
  plan::Plan late = make(true); // the message begins when its first member does
  P::step(late, 2).set_waits(0, 0);
  addWait(late, 3, 1);
  CHECK(checkPlan(late).message().find("runs on another resource or waits for steps") != std::string::npos);
  plan::Plan early = make(true);
  P::step(early, 4).set_waits(0, 2);
  CHECK(checkPlan(early).message().find("reads what step 3 'b.sum' writes") != std::string::npos);
}

TEST_CASE("a plan gets the waits that it needs") {
  plan::Plan made = P::make(0, 2, false);
  runBeside(made, [](const plan::Program &, int step) { return step == P::SUM_1 || step == P::SUM_2; });
  CHECK(serialize(made) == serialize(P::make(0, 2, true)));
  runBeside(made, [](const plan::Program &, int) { return false; });
  CHECK(serialize(made) == serialize(P::make(0, 2, false)));
  // In sections that repeat, with a message.
  using Loop = LoopPlan;
  plan::Plan loop = Loop::make(0, 2, 3, true);
  runBeside(loop, [](const plan::Program &, int) { return true; });
  CHECK(checkPlan(loop).message() == "");
  CHECK(P::step(loop, Loop::SUM_Y).waits_size() == 1);
  CHECK(P::step(loop, Loop::SUM_Y).waits(0) == Loop::FACTOR);
  CHECK(P::step(loop, Loop::SUM_Z).resource() == plan::COMMUNICATION);
  CHECK(P::step(loop, Loop::SUM_Z).waits_size() == 0);
  CHECK(P::step(loop, Loop::SCALE).waits(0) == Loop::SUM_Z);
}

TEST_CASE("what is found among random steps is what their closure has") {
  std::mt19937 random(7);
  auto below = [&](uint32_t n) { return uint32_t(random() % n); };
  int bad = 0;
  constexpr int kTrials = 20000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<LaneStep> steps(2 + below(9));
    for (size_t s = 0; s < steps.size(); ++s) {
      LaneStep &step = steps[s];
      step.lane = below(3) == 0;
      step.group = step.lane || below(6) == 0 ? int64_t(below(2)) : -1;
      for (uint32_t r = 0; r < s; ++r)
        if (steps[r].lane != step.lane && below(2) == 0)
          step.waits.push_back(r);
      auto range = [&] {
        const uint64_t begin = below(12);
        return LaneBytes{begin, begin + 1 + below(4)};
      };
      for (uint32_t k = below(3); k > 0; --k)
        step.reads.push_back(range());
      step.writes.push_back(range());
    }
    const std::optional<Unordered> found = firstUnordered(steps);
    REQUIRE(found.has_value() == anyUnordered(steps));
    bad += found.has_value();
    if (found)
      CHECK(found->first < found->second);
    for (LaneStep &step : steps)
      step.waits.clear();
    addWaits(steps);
    REQUIRE_FALSE(anyUnordered(steps));
    REQUIRE_FALSE(firstUnordered(steps).has_value());
    for (LaneStep &step : steps)
      for (size_t w = 0; w < step.waits.size(); ++w) {
        const std::vector<uint32_t> all = step.waits;
        step.waits.erase(step.waits.begin() + int64_t(w));
        REQUIRE(anyUnordered(steps));
        step.waits = all;
      }
  }
  CHECK(bad > kTrials / 10);
  CHECK(bad < kTrials * 9 / 10);
}
