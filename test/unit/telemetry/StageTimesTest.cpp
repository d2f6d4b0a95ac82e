// What stages did of a step, beside what was predicted. The e2e test of pipelines has runs.
#include "runtime/telemetry/StageTimes.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

using Lines = std::vector<std::string>;
using Seconds = std::vector<double>;

/// Two stages of two ranks, each with so many stages of the network.
plan::Plan planOf(int chunks = 1) {
  plan::Plan plan;
  plan.set_stages(2);
  for (uint32_t size : {2, 2})
    plan.add_mesh()->set_size(size);
  plan::Program *program = plan.add_programs();
  for (int section = 0; section < 2 + 3 * chunks; ++section) {
    program->add_steps();
    program->add_section_ends(uint32_t(section + 1));
  }
  return plan;
}

std::vector<Prediction> predictions(int64_t first, int64_t second) {
  std::vector<Prediction> found(2);
  found[0].kernels = first;
  found[1].kernels = second;
  for (Prediction &one : found) {
    one.end = 40'000'000;
    one.waiting = one.end - one.kernels;
  }
  return found;
}

void steps(StageTimes &times, int count, const Seconds &own, const Seconds &waited, double whole = 0.05) {
  for (int i = 0; i < count; ++i)
    times.step(own, waited, Seconds(own.size(), whole));
}

} // namespace

TEST_CASE("what stages do and wait for is told beside what was predicted") {
  StageTimes times(planOf(), 0, predictions(10'000'000, 30'000'000));
  steps(times, 1, {1, 2, 3, 4}, {5, 6, 7, 8}); // sets itself up
  CHECK(times.summary().empty());
  steps(times, 2, {0.010, 0.012, 0.036, 0.036}, {0.039, 0.037, 0.01, 0.01});
  CHECK(
      times.summary() ==
      Lines{
          "bubble: 48 % of the ranks' time, predicted 50 %",
          "stage 0 (ranks 0 to 1): 11 ms of its own a step, predicted 10 ms; 38 ms waiting for others, predicted 30 ms",
          "stage 1 (ranks 2 to 3): 36 ms of its own a step, predicted 30 ms; 10 ms waiting for others, predicted 10 "
          "ms"});
  CHECK(StageTimes::bubble({0.039, 0.037, 0.01, 0.01}, Seconds(4, 0.05)) == Approx(0.48));
  CHECK(times.warning().empty());
}

TEST_CASE("what is not known of stages is left out") {
  StageTimes unpredicted(planOf(), 0, {});
  steps(unpredicted, 3, {0.010, 0.012, 0.036, 0.036}, {0.039, 0.037, 0.01, 0.01});
  CHECK(unpredicted.summary() == Lines{"bubble: 48 % of the ranks' time",
                                       "stage 0 (ranks 0 to 1): 11 ms of its own a step; 38 ms waiting for others",
                                       "stage 1 (ranks 2 to 3): 36 ms of its own a step; 10 ms waiting for others"});
  // A device does not tell what it waits for. A rank with several stages is a place.
  StageTimes unmeasured(planOf(2), 0, predictions(10'000'000, 30'000'000));
  steps(unmeasured, 3, {0.010, 0.012, 0.036, 0.036}, {});
  CHECK(unmeasured.summary() == Lines{"place 0 (ranks 0 to 1): 11 ms of its own a step, predicted 10 ms",
                                      "place 1 (ranks 2 to 3): 36 ms of its own a step, predicted 30 ms"});
}

TEST_CASE("a stage that takes longer than predicted beside the other is named, and no longer one is") {
  StageTimes slow(planOf(), 0, predictions(10'000'000, 30'000'000));
  steps(slow, 41, {0.022, 0.024, 0.030, 0.030}, {0.02, 0.02, 0, 0});
  CHECK(slow.warning() ==
        "stage 0 (ranks 0 to 1) is slow: 23 ms of its own a step, 2.3 times what was predicted beside "
        "the other stages (10 ms)");
  CHECK(slow.warning().empty());
  StageTimes longer(planOf(), 0, predictions(10'000'000, 30'000'000));
  steps(longer, 200, {0.010, 0.010, 0.050, 0.050}, {0.04, 0.04, 0, 0});
  CHECK(longer.warning().empty());
  // The whole machine is slower than it was thought to be.
  StageTimes both(planOf(), 0, predictions(1'000'000, 3'000'000));
  steps(both, 200, {0.010, 0.010, 0.030, 0.030}, {0.02, 0.02, 0, 0});
  CHECK(both.warning().empty());
}
