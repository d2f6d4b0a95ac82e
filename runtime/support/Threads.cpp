#include "runtime/support/Threads.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tessera::rt {
namespace {

std::atomic<int> atWork{0};

extern "C" void endAtOnce(int code, void *) {
  if (atWork == 0)
    return;
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

} // namespace

int availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return CPU_COUNT(&set);
  unsigned cores = std::thread::hardware_concurrency();
  return cores ? int(cores) : 1;
}

ThreadsAtWork::ThreadsAtWork() {
  // Registered anew by each one, since exit() begins with the function that was registered last. Libraries register
  // destructors of static objects when a thread first uses them. on_exit() is given the exit code, atexit() is not.
  ++atWork;
  on_exit(endAtOnce, nullptr);
}

ThreadsAtWork::~ThreadsAtWork() { --atWork; }

Status probeThreads(int count) {
  Status status;
  std::latch asked(1); // all live at once
  std::vector<std::thread> threads;
  try {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&] { asked.wait(); });
  } catch (const std::system_error &e) {
    status = systemFailure(e);
  }
  asked.count_down();
  for (std::thread &thread : threads)
    thread.join();
  return status;
}

Status systemFailure(const std::system_error &error) {
  if (error.code() != std::errc::resource_unavailable_try_again)
    return Status::error(std::string("internal failure: ") + error.what());
  return Status::error("a thread cannot be started: " + error.code().message() +
                       "; raise the limit on threads (ulimit -u, or the container's), or use fewer ranks on this "
                       "machine or fewer --threads");
}

} // namespace tessera::rt
