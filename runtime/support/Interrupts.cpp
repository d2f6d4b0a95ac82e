#include "runtime/support/Interrupts.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// How often a folder's removal is tried: other threads may still write into it.
constexpr int kRemovals = 200;
constexpr auto kPause = std::chrono::milliseconds(5);

int ends[2] = {-1, -1}; // of a pipe from the signal handler to the thread that acts on signals
std::atomic<int> code{0};
std::atomic<bool> ending{false}, stopping{false};

std::recursive_mutex &mutex() {
  static auto *one = new std::recursive_mutex; // never destroyed: the thread may need it after static objects are gone
  return *one;
}

std::multiset<std::string> &unfinished() {
  static auto *all = new std::multiset<std::string>;
  return *all;
}

extern "C" void noteInterrupt(int signal) {
  const int before = errno;
  const char byte = char(signal);
  static_cast<void>(!write(ends[1], &byte, 1));
  errno = before;
}

void removeUnfinished() {
  for (const std::string &path : unfinished()) {
    std::error_code error;
    for (int i = 0; i < kRemovals; ++i) {
      std::filesystem::remove_all(path, error);
      if (!error)
        break;
      std::this_thread::sleep_for(kPause);
    }
  }
}

std::function<void()> &beforeSaying() {
  static auto *one = new std::function<void()>;
  return *one;
}

/// `stopFirst` tells whether the first signal only asks the program to end; without it no signal does.
void serve(const std::string &program, const std::function<bool()> &stopFirst) {
  for (char signal = 0;;) {
    const ssize_t got = read(ends[0], &signal, 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got != 1)
      return;
    code = 128 + signal;
    if (stopFirst && !stopping && stopFirst()) {
      stopping = true;
      continue;
    }
    const auto held = Unfinished::hold();
    ending = true;
    removeUnfinished();
    if (beforeSaying())
      beforeSaying()();
    std::fprintf(stderr, "%s: interrupted\n", program.c_str());
    std::fflush(stderr);
    _exit(128 + signal);
  }
}

void begin(const std::string &program, const std::function<bool()> &stopFirst) {
  if (ends[0] >= 0 || pipe2(ends, O_CLOEXEC) != 0)
    return;
  try {
    std::thread(serve, program, stopFirst).detach();
  } catch (const std::system_error &) {
    return; // without a thread the signals keep their default effect
  }
  for (int signal : {SIGINT, SIGTERM}) {
    struct sigaction action = {}, before = {};
    action.sa_handler = noteInterrupt;
    action.sa_flags = SA_RESTART;
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
}

} // namespace

void endOnInterrupt(const std::string &program) { begin(program, nullptr); }

const std::atomic<bool> &stopOnInterrupt(const std::string &program, const std::function<bool()> &may) {
  begin(
      program, may ? may : [] { return true; });
  return stopping;
}

void beforeInterruptedIsSaid(std::function<void()> act) {
  const auto held = Unfinished::hold();
  beforeSaying() = std::move(act);
}

int interruptCode() { return code; }

void yieldToInterrupt() {
  while (ending)
    pause();
}

Unfinished::Unfinished(std::string path) : path_(std::move(path)) {
  const auto held = hold();
  unfinished().insert(path_);
}

Unfinished::~Unfinished() {
  const auto held = hold();
  if (const auto at = unfinished().find(path_); at != unfinished().end())
    unfinished().erase(at);
}

std::unique_lock<std::recursive_mutex> Unfinished::hold() { return std::unique_lock(mutex()); }

} // namespace tessera::rt
