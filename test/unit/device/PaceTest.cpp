// How closely a rank looks whether its device is done.
#include "runtime/device/Pace.h"

#include <catch2/catch.hpp>

using tessera::rt::Pace;
using namespace std::chrono_literals;

TEST_CASE("a rank sleeps through most of a wait that is like those before") {
  Pace pace;
  CHECK(pace.pause(0ms) == 0ns); // nothing is known
  pace.ended(12ms);
  CHECK(pace.pause(0ms) == 0ns); // one wait is too few
  pace.ended(10ms);
  CHECK(pace.pause(0ms) == 7500us);
  CHECK(pace.pause(7ms) == 500us);
  CHECK(pace.pause(8ms) == 0ns);
  CHECK(pace.pause(14ms) == 0ns);
  CHECK(pace.pause(15ms) == 20us);
  pace.ended(2s);
  CHECK(pace.pause(0ms) == 7500us);
  pace.ended(2s);
  CHECK(pace.pause(0ms) == 20ms); // whoever looks after communicators does so meanwhile
}

TEST_CASE("a rank sleeps through no short wait") {
  Pace pace;
  pace.ended(300us);
  pace.ended(400us);
  CHECK(pace.pause(0us) == 0ns);
  CHECK(pace.pause(1ms) == 0ns);
  CHECK(pace.pause(3ms) == 20us);
}
