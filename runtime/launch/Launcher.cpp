#include "runtime/launch/Launcher.h"
#include "runtime/comm/threads/ThreadWorld.h"
#include "runtime/support/Threads.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

std::atomic<int> interrupt{0}; // the first signal

extern "C" void onInterrupt(int signal) {
  if (int none = 0; !interrupt.compare_exchange_strong(none, signal)) // asked twice: now
    _exit(128 + signal);
}

} // namespace

Status runRanks(std::vector<std::unique_ptr<World>> worlds, const std::function<Status(World &)> &body) {
  const ThreadsAtWork atWork; // OpenMP exits where it gets no thread, and a rank has threads besides its own
  std::mutex mutex;
  Status first;
  auto rank = [&](World &world) {
    Status status;
    // This code throws nothing on purpose, but memory may run out in a container.
    try {
      status = body(world);
    } catch (const std::system_error &e) {
      status = systemFailure(e);
    } catch (const std::bad_alloc &) {
      status = Status::error("memory has run out; use fewer ranks on this machine, or a smaller batch");
    } catch (const std::exception &e) {
      status = Status::error(std::string("internal failure: ") + e.what());
    }
    if (status)
      return;
    {
      // Recorded before abort(), so that this failure comes before those that abort() causes in
      // other ranks.
      std::lock_guard lock(mutex);
      if (first.ok())
        first = worlds.size() > 1 ? status.context("rank " + std::to_string(world.rank())) : status;
    }
    world.abort(status.message());
  };
  std::vector<std::thread> threads;
  bool all = true;
  try {
    for (size_t i = 1; i < worlds.size(); ++i)
      threads.emplace_back([&, i] { rank(*worlds[i]); });
  } catch (const std::system_error &e) {
    all = false;
    const Status status = systemFailure(e).context("rank " + std::to_string(threads.size() + 1));
    {
      std::lock_guard lock(mutex);
      if (first.ok())
        first = status;
    }
    worlds[0]->abort(status.message()); // ends the ranks that run already
  }
  if (!worlds.empty() && all)
    rank(*worlds[0]);
  for (std::thread &thread : threads)
    thread.join();
  return first;
}

Status runRanks(int n, const std::function<Status(World &)> &body) { return runRanks(createThreadWorlds(n), body); }

int threadsPerRank(int localRanks, int localCores) {
  const int available = availableCores();
  const int threads = std::min(available, (localCores > 0 ? localCores : available) / std::max(localRanks, 1));
  return std::max(threads, 1);
}

void catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onInterrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupted() { return interrupt.load(); }

void requestInterrupt(int signal) { interrupt.store(signal); }

void clearInterrupt() { interrupt.store(0); }

Result<int> anyInterrupted(Communicator &everyone) {
  int32_t signal = interrupted();
  TESSERA_RETURN_IF_ERROR(everyone.allReduce(&signal, &signal, 1, plan::I32, plan::MAX));
  return int(signal);
}

} // namespace tessera::rt
