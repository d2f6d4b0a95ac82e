#include "runtime/support/Threads.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace tessera::rt;

namespace {

/// How a child process ends that runs this.
template <typename Body> int statusOf(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(100);
  }
  int status = 0;
  const pid_t waited = waitpid(child, &status, 0);
  REQUIRE(waited == child);
  return status;
}

/// What a library registers for its static objects when a thread first uses it.
void registerDestructors() {
  std::atexit([] { std::abort(); });
}

} // namespace

TEST_CASE("exit() while threads are at work runs nothing that was registered before") {
  const int status = statusOf([] {
    registerDestructors();
    const ThreadsAtWork atWork;
    std::exit(3);
  });
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 3);
}

TEST_CASE("exit() runs nothing that was registered between two times when threads went to work") {
  const int status = statusOf([] {
    const ThreadsAtWork ranks;
    registerDestructors();
    const ThreadsAtWork loops;
    std::exit(3);
  });
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 3);
}

TEST_CASE("exit() is itself again once no thread is at work") {
  const int status = statusOf([] {
    std::atexit([] { _exit(7); });
    { const ThreadsAtWork atWork; }
    std::exit(3);
  });
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 7);
}

TEST_CASE("threads are probed for and none is left") { REQUIRE(probeThreads(3).ok()); }
