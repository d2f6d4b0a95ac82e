#include "runtime/telemetry/Monitor.h"

#include "runtime/support/Printable.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr const char *kHang = "no progress for ";
/// How long this monitor waits for the other ranks' monitors to speak, and how long for its rank to
/// end after the abort.
constexpr double kDumpSeconds = 1, kEndSeconds = 5;

} // namespace

Monitor::Monitor(Executor &executor, World &world, RankLog &log, double seconds)
    : executor_(executor), world_(world), log_(log), seconds_(seconds), thread_([this] { run(); }) {}

Monitor::~Monitor() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Monitor::pause(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ended_; });
}

void Monitor::dump(const std::string &why) {
  const std::string text = why + ": " + executor_.whereabouts();
  printError("[rank " + std::to_string(world_.rank()) + "] " + text);
  log_.line(text);
}

void Monitor::run() {
  using Clock = std::chrono::steady_clock;
  uint64_t seen = executor_.progress();
  Clock::time_point since = Clock::now();
  while (!pause(std::min(0.2, seconds_ / 4))) {
    const bool others = world_.aborted().find(kHang) != std::string::npos;
    if (others) {
      dump("another rank hangs");
    } else {
      if (executor_.progress() != seen) {
        seen = executor_.progress();
        since = Clock::now();
      }
      if (std::chrono::duration<double>(Clock::now() - since).count() < seconds_)
        continue;
      char seconds[32];
      std::snprintf(seconds, sizeof seconds, "%.3g s", seconds_);
      dump(kHang + std::string(seconds));
      if (pause(kDumpSeconds))
        return;
      world_.abort(kHang + std::string(seconds) + ": " + executor_.whereabouts());
    }
    if (!pause(kEndSeconds))
      _exit(1);
    return;
  }
}

} // namespace tessera::rt
