// What an inference says about the time of its batches.
#include "runtime/telemetry/Latency.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace tessera::rt;

TEST_CASE("the latency is told of batches after the first ones") {
  const Latency few = latencyOf({0.9, 0.8, 0.1, 0.1, 0.12}, 8);
  CHECK(few.warmup == 2);
  CHECK(few.batches == 3);
  CHECK(few.median == 0.1);
  CHECK(few.p90 == 0.12);
  CHECK(few.p99 == 0.12);
  CHECK(few.samplesPerSecond == Approx(24 / 0.32));
  CHECK(latencyText(few) == "latency of a batch: median 100 ms, p90 120 ms, p99 120 ms, over 3 batches after 2 to warm "
                            "up; 75 samples/s");
  CHECK(latencyJson(latencyOf({0.5}, 2)) ==
        "{\"batches\": 1, \"warmup_batches\": 0, \"latency_median\": 0.5, \"latency_p90\": 0.5, "
        "\"latency_p99\": 0.5, \"samples_per_second\": 4}\n");
}

TEST_CASE("percentiles are times that batches took, in any order") {
  std::vector<double> seconds(205);
  std::iota(seconds.rbegin(), seconds.rend() - 5, 1.0); // the last 200 of them: 200, 199, ... 1
  std::fill_n(seconds.begin(), 5, 1e6);
  const Latency latency = latencyOf(seconds, 1);
  CHECK(latency.warmup == 5);
  CHECK(latency.batches == 200);
  CHECK(latency.median == 100);
  CHECK(latency.p90 == 180);
  CHECK(latency.p99 == 198);
  CHECK(latency.samplesPerSecond == Approx(200 / (200 * 201 / 2.0)));
  CHECK(latencyText(latencyOf({0.25}, 1)) ==
        "latency of a batch: median 250 ms, p90 250 ms, p99 250 ms, over 1 batch; 4 samples/s");
  CHECK(latencyOf({1.0, 0.5}, 1).warmup == 1);
}
