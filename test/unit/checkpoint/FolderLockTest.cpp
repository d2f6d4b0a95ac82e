// One run at a time in a folder of checkpoints.
#include "runtime/checkpoint/FolderLock.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

using namespace tessera::rt;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  std::string path;
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Scratch() { fs::remove_all(path); }
};

} // namespace

TEST_CASE("a folder belongs to one run until the run gives it back") {
  Scratch scratch;
  const std::string folder = scratch.path + "/run";
  {
    Result<FolderLock> first = FolderLock::take(folder, 0);
    REQUIRE(first);
    const Status second = FolderLock::take(folder, 0.1).status();
    REQUIRE(!second);
    CHECK(second.message().find(folder + ": is used by process " + std::to_string(getpid()) + " on ") == 0);
    CHECK(FolderLock::take(scratch.path + "/other", 0));
  }
  CHECK(FolderLock::take(folder, 0));
}

TEST_CASE("the lock of a process that was killed is free") {
  Scratch scratch;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Result<FolderLock> lock = FolderLock::take(scratch.path, 0);
    const char got = lock ? 1 : 0;
    _exit(write(ends[1], &got, 1) == 1 && pause() ? 0 : 1);
  }
  char got = 0;
  REQUIRE(read(ends[0], &got, 1) == 1);
  REQUIRE(got == 1);
  const Status used = FolderLock::take(scratch.path, 0).status();
  CHECK(used.message().find("is used by process " + std::to_string(child) + " on ") != std::string::npos);
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(FolderLock::take(scratch.path, 0));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a folder that cannot be made and a file that cannot be written are errors") {
  CHECK(!FolderLock::take("/dev/null", 0));
  CHECK(!FolderLock::take("/proc/self", 0));
}
