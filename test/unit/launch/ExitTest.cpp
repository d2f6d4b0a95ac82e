// A library that ends the process while ranks run.
#include "runtime/launch/Launcher.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace tessera::rt;

namespace {

int told = -1; // where a child writes that what was registered with atexit() runs

void tell() { static_cast<void>(!write(told, "x", 1)); }

/// The exit code of a child that calls `body`, and whether functions of atexit() were run in it.
std::pair<int, bool> inChild(void (*body)()) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    told = ends[1];
    std::atexit(tell);
    body();
    _exit(99);
  }
  close(ends[1]);
  char byte = 0;
  const bool ran = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), ran};
}

} // namespace

TEST_CASE("exit() while ranks run ends the process at once with its code") {
  const auto [code, ran] = inChild([] {
    static_cast<void>(runRanks(4, [](World &world) -> Status {
      if (world.rank() == 2)
        std::exit(7);
      for (;;)
        pause();
    }));
  });
  CHECK(code == 7);
  CHECK_FALSE(ran);
}

TEST_CASE("exit() after the ranks have ended is an exit like any other") {
  const auto [code, ran] = inChild([] {
    static_cast<void>(runRanks(4, [](World &) { return Status(); }));
    std::exit(7);
  });
  CHECK(code == 7);
  CHECK(ran);
}
