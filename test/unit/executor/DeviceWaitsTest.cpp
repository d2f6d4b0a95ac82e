// These tests use figures. e2e.device has ranks on devices, one of which is slow.
#include "runtime/executor/DeviceWaits.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;

TEST_CASE("the time that a device waits is compared with its own time") {
  DeviceWaits waits;
  CHECK_FALSE(waits.run(0.030, 0.002, {}).has_value());
  CHECK(waits.run(0.030, 0.002, 0.012) == Approx(0.012));
  CHECK(waits.run(0.035, 0.002, {}) == Approx(0.017));
  CHECK(waits.run(0.035, 0.025, {}) == Approx(0.010)); // the host was the slower one
  CHECK(waits.run(0.015, 0.002, {}) == Approx(0));     // faster than before, not less than no wait
}

TEST_CASE("one slow run of a device does not count in the runs after it") {
  DeviceWaits waits;
  for (double seconds : {0.020, 0.021, 0.900})
    waits.run(seconds, 0.001, 0.010);
  CHECK(waits.run(0.030, 0.001, {}) == Approx(0.030 - 0.011));
  // Two slow runs count.
  waits.run(0.900, 0.001, 0.010);
  CHECK(waits.run(1.000, 0.001, {}) == Approx(1.000 - 0.890));
}
