// Plans whose sections are called once per micro-batch compute what the same plans written out do, with collectives in
// the repeated section, over threads and over TCP; and whoever watches a run sees every call.
#include "runtime/executor/GlobalTensors.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanChecker.h"
#include "test/unit/executor/OnRanks.h"
#include "test/unit/plan/LoopPlan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

using namespace tessera::rt;
namespace plan = tessera::plan;
using RtStatus = tessera::rt::Status;
using P = LoopPlan;

namespace {

std::vector<plan::Plan> plansOf(uint32_t ranks, int parts, bool calls) {
  std::vector<plan::Plan> plans;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    plans.push_back(P::make(rank, ranks, parts, calls));
  REQUIRE(checkPlan(plans[0]).message() == "");
  REQUIRE(checkPlans(plans).message() == "");
  return plans;
}

using Use = std::function<RtStatus(Executor &)>;

/// Runs two steps on one rank and gives out and m, both [2, 2].
RtStatus steps(const plan::Plan &plan, World &world, const std::string &backend, const LoadOptions &options,
               std::vector<float> &result, const Use &before = nullptr) {
  return withExecutor(plan, world, backend, options, [&](Executor &executor) {
    if (before)
      TESSERA_RETURN_IF_ERROR(before(executor));
    const int64_t count = plan.buffers(P::X).shape(0) * 2;
    result.clear();
    for (int step = 0; step < 2; ++step) {
      std::vector<float> x(size_t(count), 0);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = float((int(i) * 5 + int(plan.rank()) * 3 + step) % 7 - 3);
      TESSERA_RETURN_IF_ERROR(executor.feed(0, x.data()));
      TESSERA_RETURN_IF_ERROR(executor.run(0));
      for (int binding : {3, 2}) {
        std::vector<char> host;
        TESSERA_RETURN_IF_ERROR(executor.fetch(binding, host));
        const auto *values = reinterpret_cast<const float *>(host.data());
        result.insert(result.end(), values, values + 4);
      }
    }
    return RtStatus();
  });
}

/// What all ranks get, one after the other.
std::vector<float> onThreads(const std::vector<plan::Plan> &plans, const std::string &backend,
                             const LoadOptions &options = {}, const Use &before = nullptr) {
  std::vector<std::vector<float>> results(plans.size());
  RtStatus status = runRanks(int(plans.size()), [&](World &world) {
    const auto rank = size_t(world.rank());
    return steps(plans[rank], world, backend, options, results[rank], before);
  });
  INFO(status.message());
  REQUIRE(status.ok());
  std::vector<float> all;
  for (const std::vector<float> &result : results)
    all.insert(all.end(), result.begin(), result.end());
  return all;
}

} // namespace

TEST_CASE("a loop that accumulates in place equals the plan that is written out") {
  for (const char *backend : {"reference", "cpu"})
    for (int threads : {1, 2})
      for (uint32_t ranks : {1u, 2u, 4u})
        for (int parts : {1, 2, 5}) {
          INFO(backend << ", " << threads << " threads, " << ranks << " ranks, " << parts << " micro-batches");
          LoadOptions options;
          options.threads = threads;
          const std::vector<float> expected = onThreads(plansOf(ranks, parts, false), backend, options);
          CHECK(onThreads(plansOf(ranks, parts, true), backend, options) == expected);
          CHECK(std::any_of(expected.begin(), expected.end(), [](float v) { return v != 0; }));
        }
}

TEST_CASE("a loop runs over TCP") {
  const std::vector<plan::Plan> plans = plansOf(2, 3, true);
  const std::vector<float> expected = onThreads(plansOf(2, 3, false), "reference");
  std::vector<float> results[2];
  const std::vector<RtStatus> statuses = onTcp(2, 20, [&](World &world) {
    return steps(plans[size_t(world.rank())], world, "reference", {}, results[world.rank()]);
  });
  CHECK(statuses[0].message() == "");
  CHECK(statuses[1].message() == "");
  results[0].insert(results[0].end(), results[1].begin(), results[1].end());
  CHECK(results[0] == expected);
}

TEST_CASE("who watches a run sees every call, and times are sums over calls") {
  constexpr int kParts = 3;
  std::vector<std::pair<int, uint32_t>> seen;
  std::vector<int64_t> places;
  std::string where;
  uint64_t progress[2] = {};
  const std::vector<plan::Plan> plans = plansOf(1, kParts, true);
  RtStatus status = runRanks(1, [&](World &world) {
    std::vector<float> result;
    return steps(plans[0], world, "reference", {}, result, [&](Executor &executor) {
      executor.measure();
      executor.observe([&](const StepDone &done) {
        seen.emplace_back(done.step, done.index);
        places.push_back(done.place);
        if (done.step == P::SUM_Y && done.index == 1)
          where = executor.whereabouts();
        progress[done.step == P::LAST] = executor.progress();
        const StepTimes &times = executor.times(0);
        CHECK(times.measured == (times.runs <= 1 ? 0 : times.runs - 1)); // the first run does not count
        if (places.size() == executor.order(0).size()) {                 // the first run's last step
          CHECK(executor.times(0).runs == 0);
          CHECK(executor.times(0).seconds.size() == size_t(P::kEnd));
        }
        return RtStatus();
      });
      return RtStatus();
    });
  });
  INFO(status.message());
  REQUIRE(status.ok());
  std::vector<std::pair<int, uint32_t>> once;
  std::vector<int64_t> counted;
  auto add = [&](int begin, int end, uint32_t index) {
    for (int s = begin; s < end; ++s) {
      counted.push_back(int64_t(once.size()));
      once.emplace_back(s, index);
    }
  };
  add(0, P::kBegin, 0);
  for (uint32_t index = 0; index < kParts; ++index)
    add(P::kBegin, P::kBody, index);
  add(P::kBody, P::kEnd, 0);
  std::vector<std::pair<int, uint32_t>> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  std::vector<int64_t> both = counted;
  both.insert(both.end(), counted.begin(), counted.end());
  CHECK(seen == twice);
  CHECK(places == both);
  CHECK(where == "step 1, program 'train', micro-batch 2 of 3, 7 of 12: collective 'y.sum'");
  CHECK(progress[1] > progress[0]);
}

TEST_CASE("a kernel refuses an index that it has no rows for") {
  const std::vector<plan::Plan> plans = plansOf(1, 2, true);
  for (const char *name : {"reference", "cpu"}) {
    auto backend = createBackend(name);
    auto loaded = (*backend)->load(plans[0], {});
    REQUIRE(loaded.ok());
    CHECK((*loaded)->launch(0, P::ROWS, 1).ok());
    CHECK((*loaded)->launch(0, P::ROWS, 2).message() == "step 'xi': there is no micro-batch 3 of 2");
  }
}

TEST_CASE("a plan of other parts is refused by name") {
  plan::Plan wrong = P::make(0, 1, 2, true);
  wrong.mutable_programs(0)->mutable_steps(P::ROWS)->mutable_kernel()->mutable_attributes(0)->set_i(3);
  for (const char *name : {"reference", "cpu", "null"}) {
    auto backend = createBackend(name);
    const std::string message = (*backend)->load(wrong, {}).status().message();
    CHECK(message.find("step 'xi'") != std::string::npos);
    CHECK(message.find("its rows are not 3 equal parts") != std::string::npos);
  }
}
