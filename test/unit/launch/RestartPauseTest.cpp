// The time that a supervisor waits before another start.
#include "runtime/launch/Supervisor.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;

TEST_CASE("pauses between starts double up to a minute, and begin anew after a checkpoint") {
  CHECK(restartPause(0) == 0);
  CHECK(restartPause(1) == 0.5);
  CHECK(restartPause(2) == 1);
  CHECK(restartPause(5) == 8);
  CHECK(restartPause(8) == 60);
  CHECK(restartPause(1 << 30) == 60);
}
