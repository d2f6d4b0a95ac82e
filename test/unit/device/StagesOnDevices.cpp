// Stages on emulated devices compute what the same program does on one rank: recorded and step by step, whatever the
// order of calls, of streams, and of what ranks do together.
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Platform.h"
#include "test/unit/plan/StagePlan.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

using namespace tessera::rt;
namespace plan = tessera::plan;
using RtStatus = tessera::rt::Status;

namespace {

using Values = std::map<std::string, std::vector<float>>; // w0, w1 and losses

constexpr int kSteps = 4; // the first one step by step, the second is recorded

struct How {
  std::string backend = "cuda";
  bool share = false, graphs = true, watched = false;
};

RtStatus steps(const plan::Plan &plan, World &world, const How &how, Values &values) {
  Result<Platform> platform = Platform::open({how.backend, world.rank(), world.size(), how.share}, world);
  if (!platform)
    return platform.status();
  LoadOptions options;
  options.device.graphs = how.graphs;
  auto executor = Executor::create(plan, *platform->backend, world, options, platform->deviceWorld.get());
  if (!executor)
    return executor.status();
  if (how.watched)
    (*executor)->observe([](const StepDone &) { return RtStatus(); });
  for (int step = 0; step < kSteps; ++step) {
    TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(nullptr, false)); // so that all sums stay those of small integers
    for (int b = 0; b < plan.bindings_size(); ++b)
      if (const plan::Binding &binding = plan.bindings(b);
          binding.role() == plan::INPUT || binding.role() == plan::TARGET) {
        std::vector<float> rows;
        for (int64_t i = binding.offset(0) * 2;
             i < (binding.offset(0) + plan.buffers(int(binding.buffer())).shape(0)) * 2; ++i)
          rows.push_back(float((i * 5 + step + (binding.role() == plan::TARGET ? 3 : 0)) % 3 - 1));
        TESSERA_RETURN_IF_ERROR((*executor)->feed(b, rows.data()));
      }
    TESSERA_RETURN_IF_ERROR((*executor)->run(0));
    for (int b = 0; b < plan.bindings_size(); ++b)
      if (plan.bindings(b).role() == plan::STATE || plan.bindings(b).role() == plan::LOSS) {
        std::vector<char> host;
        TESSERA_RETURN_IF_ERROR((*executor)->fetch(b, host));
        const auto *numbers = reinterpret_cast<const float *>(host.data());
        std::vector<float> &to = values[plan.bindings(b).name()];
        to.insert(to.end(), numbers, numbers + host.size() / 4);
      }
  }
  return RtStatus();
}

/// What all ranks have; ranks that have the same tensor must agree.
Values values(const std::vector<plan::Plan> &plans, const How &how) {
  std::vector<Values> results(plans.size());
  RtStatus status = runRanks(int(plans.size()), [&](World &world) {
    const auto rank = size_t(world.rank());
    return steps(plans[rank], world, how, results[rank]);
  });
  INFO(status.message());
  REQUIRE(status.ok());
  Values all;
  for (const Values &of : results)
    for (const auto &[name, value] : of)
      CHECK(all.emplace(name, value).first->second == value);
  return all;
}

} // namespace

TEST_CASE("a pipeline on devices computes what one rank does") {
  for (uint32_t width : {1u, 2u})
    for (bool oneByOne : {true, false}) {
      const StagePlan made{width, 4, oneByOne};
      const Values expected = values({made.sequential()}, {"reference"});
      CHECK(expected.at("loss")[0] != expected.at("loss")[1]);
      for (const char *order : {"", "comm"}) {
        setenv("TESSERA_EMULATOR_ORDER", order, 1);
        INFO(width << " ranks a stage, " << (oneByOne ? "1f1b" : "gpipe") << ", first " << order);
        CHECK(values(made.plans(), {}) == expected);
      }
      unsetenv("TESSERA_EMULATOR_ORDER");
      CHECK(values(made.plans(), {.graphs = false}) == expected);
      CHECK(values(made.plans(), {.watched = true}) == expected);
      CHECK(values(made.plans(), {.share = true}) == expected);
    }
}

TEST_CASE("stages of different numbers of ranks on devices") {
  for (auto [width, behind] : {std::pair(1u, 2u), {2u, 1u}, {1u, 3u}}) {
    INFO(width << " and " << behind << " ranks");
    const StagePlan made{width, 4, true, behind};
    CHECK(values(made.plans(), {}) == values({made.sequential()}, {"reference"}));
  }
}
