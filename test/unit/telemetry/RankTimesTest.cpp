// Figures tell which rank is slow. SessionTest.cpp has a run with a slow rank.
#include "runtime/telemetry/RankTimes.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;

namespace {

using Seconds = std::vector<double>;
const Seconds kSlow = {0.010, 0.011, 0.031, 0.010}, kEven = {0.010, 0.011, 0.010, 0.009};

void steps(RankTimes &times, int count, const Seconds &seconds, double whole = 0.04) {
  for (int i = 0; i < count; ++i)
    times.step(seconds, whole);
}

} // namespace

TEST_CASE("a rank that stays slow is named once while it runs, and at the end") {
  RankTimes times({"a", "a", "b", "b"});
  steps(times, 1, {1, 2, 3, 4}); // sets itself up
  CHECK(times.summary().empty());
  steps(times, 39, kSlow);
  CHECK(times.warning().empty()); // once is no habit
  steps(times, 1, kSlow);
  CHECK(times.warning() == "rank 2 (on b) is slow: 31 ms of its own a step, 3.1 times the others' (10 ms)");
  steps(times, 200, kSlow);
  CHECK(times.warning().empty());
  CHECK(times.skew(kSlow) == Approx(3.1));
  CHECK(times.summary() == "rank 2 (on b) was the slowest: 31 ms of its own a step, 3.1 times the others' (10 ms)");
  CHECK(times.summary(0) == "10 ms of its own a step, 1 times the others' (10 ms)");
  // Another one becomes slow.
  steps(times, 40, {0.050, 0.011, 0.010, 0.010});
  CHECK(times.warning().find("rank 0 (on a) is slow") == 0);
}

TEST_CASE("a rank that is often slow is found as one that always is") {
  RankTimes times({"a", "a"});
  for (int i = 0; i < 1000; ++i)
    times.step({0.001, i % 10 == 0 ? 0.021 : 0.001}, i % 10 == 0 ? 0.021 : 0.001);
  CHECK(times.warning().find("rank 1 is slow: 3 ms of its own a step, 3 times") == 0);
}

TEST_CASE("one slow step, changing slow ranks, and a rank that nobody waits for are not called slow") {
  RankTimes hiccup({"a", "a", "a", "a"});
  for (int i = 0; i < 200; ++i)
    i == 70 ? hiccup.step({0.01, 0.01, 5, 0.01}, 5) : hiccup.step(kEven, 0.04);
  CHECK(hiccup.warning().empty());
  CHECK(hiccup.summary().find("ranks took 9.") == 0);
  RankTimes changing({"a", "a"});
  for (int i = 0; i < 201; ++i)
    changing.step(i / 20 % 2 ? Seconds{0.010, 0.030} : Seconds{0.030, 0.010}, 0.04);
  CHECK(changing.warning().empty());
  RankTimes communicating({"a", "a", "a", "a"});
  steps(communicating, 200, kSlow, 1.0); // 20 ms of a second
  CHECK(communicating.warning().empty());
  CHECK(communicating.summary().find("rank 2 was the slowest") == 0); // a figure, all the same
}

TEST_CASE("of two ranks the faster one is the measure, and a short run has a summary") {
  RankTimes times({"a", "b"});
  steps(times, 41, {0.030, 0.010});
  CHECK(times.warning() == "rank 0 (on a) is slow: 30 ms of its own a step, 3 times the others' (10 ms)");
  RankTimes brief({"a", "b"});
  steps(brief, 4, {0.030, 0.010});
  CHECK(brief.warning().empty());
  CHECK(brief.summary() == "ranks took 10 ms to 30 ms of their own a step");
  RankTimes slow({"a", "b"});
  steps(slow, 4, {1.59, 0.5});
  CHECK(slow.summary() == "ranks took 500 ms to 1.59 s of their own a step");
  // A run without time does not divide by it.
  RankTimes nothing({"a", "b"});
  steps(nothing, 60, {0, 0}, 0);
  CHECK(nothing.warning().empty());
  CHECK(nothing.skew({0, 0}) == 1);
}

TEST_CASE("a rank of a pipeline is compared with those of its stage") {
  const std::vector<std::string> hosts(6, "a");
  RankTimes even(hosts, Stages(2, 3));
  steps(even, 200, {0.010, 0.010, 0.011, 0.035, 0.034, 0.034});
  CHECK(even.warning().empty());
  CHECK(even.summary() == "ranks took 10 ms to 35 ms of their own a step");
  CHECK(even.skew({0.010, 0.010, 0.011, 0.035, 0.034, 0.034}) == Approx(1.1));
  RankTimes slow(hosts, Stages(2, 3));
  steps(slow, 41, {0.010, 0.020, 0.011, 0.035, 0.034, 0.034});
  CHECK(slow.warning() == "rank 1 is slow: 20 ms of its own a step, 1.82 times the others' (11 ms)");
}

TEST_CASE("stages are compared by what was predicted of them") {
  RankTimes times = RankTimes::ofStages({{"stage 0", 0.010}, {"stage 1", 0.020}});
  steps(times, 41, {0.011, 0.066}, 0.1);
  CHECK(times.warning() ==
        "stage 1 is slow: 66 ms of its own a step, 3 times what was predicted beside the other stages "
        "(22 ms)");
}
