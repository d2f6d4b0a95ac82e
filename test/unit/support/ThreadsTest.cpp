#include "runtime/support/Threads.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace tessera::rt;

namespace {

/// With what a child process that runs this ends by itself.
template <typename Body> int exitCodeOf(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(100);
  }
  int status = 0;
  const pid_t waited = waitpid(child, &status, 0);
  REQUIRE(waited == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// What a library registers for its static objects when a thread first uses it.
void registerDestructors() {
  std::atexit([] { std::abort(); });
}

} // namespace

TEST_CASE("exit() while threads are at work runs nothing that was registered before") {
  const int code = exitCodeOf([] {
    registerDestructors();
    const ThreadsAtWork atWork;
    std::exit(3);
  });
  REQUIRE(code == 3);
}

TEST_CASE("exit() runs nothing that was registered between two times when threads went to work") {
  const int code = exitCodeOf([] {
    const ThreadsAtWork ranks;
    registerDestructors();
    const ThreadsAtWork loops;
    std::exit(3);
  });
  REQUIRE(code == 3);
}

TEST_CASE("exit() is itself again once no thread is at work") {
  const int code = exitCodeOf([] {
    std::atexit([] { _exit(7); });
    { const ThreadsAtWork atWork; }
    std::exit(3);
  });
  REQUIRE(code == 7);
}

TEST_CASE("threads are probed for and none is left") { REQUIRE(probeThreads(3).ok()); }
