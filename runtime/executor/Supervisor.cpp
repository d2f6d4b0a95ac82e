#include "runtime/executor/Supervisor.h"

#include "runtime/comm/tcp/Handshake.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tessera::rt {
namespace {

struct Process {
  const Child *child;
  pid_t pid = -1;
};

void say(const std::string &text) {
  std::fprintf(stderr, "tessera-run: %s\n", text.c_str());
  std::fflush(stderr);
}

std::string nameOf(const Child &child) {
  return child.rank < 0 ? "the run" : "rank " + std::to_string(child.rank);
}

/// The environment with `added` in the place of what is there under its names.
std::vector<std::string>
environmentWith(const std::vector<std::pair<std::string, std::string>> &added) {
  std::vector<std::string> all;
  for (char **entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (std::none_of(added.begin(), added.end(), [&](const auto &a) { return a.first == name; }))
      all.push_back(text);
  }
  for (const auto &[name, value] : added)
    all.push_back(name + "=" + value);
  return all;
}

class Attempt {
public:
  Attempt(const SupervisorOptions &options, int number, const sigset_t &before)
      : options_(options), number_(number), before_(before) {}

  Status start();
  /// Until all have ended: the code of the first that failed, or that of those that did not.
  int wait(bool &interrupted);

private:
  Status spawn(const Child &child, const Socket &listener, const std::string &secret);
  void reap(double &killAt);
  void signalAll(int signal) {
    for (const Process &process : processes_)
      if (process.pid > 0)
        kill(process.pid, signal);
  }

  const SupervisorOptions &options_;
  const int number_;
  const sigset_t &before_;
  std::vector<Process> processes_;
  int code_ = 0;
  bool failed_ = false;
};

Status Attempt::spawn(const Child &child, const Socket &listener, const std::string &secret) {
  auto added = child.environment;
  added.push_back({"TESSERA_ATTEMPT", std::to_string(number_)});
  if (listener) {
    for (auto &[name, value] : added)
      if (name == "MASTER_PORT")
        value = std::to_string(localPort(listener));
    added.push_back({"TESSERA_SECRET", secret});
    added.push_back({"TORCHELASTIC_USE_AGENT_STORE", ""});
    if (child.rank == 0)
      added.push_back({"TESSERA_LISTENER", std::to_string(listener.fd())});
  }
  std::vector<std::string> environment = environmentWith(added);
  std::vector<char *> pointers;
  for (std::string &entry : environment)
    pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    return Status::error(nameOf(child) + " cannot be started: " + std::strerror(errno));
  if (pid > 0) {
    processes_.push_back({&child, pid});
    return Status();
  }
  // Only what is safe between fork and exec.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(1);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (listener && child.rank == 0) {
    // Inherited: without "close on exec".
    const int kept = dup(listener.fd());
    dup2(kept, listener.fd());
    close(kept);
  }
  execve("/proc/self/exe", options_.arguments, pointers.data());
  _exit(127);
}

Status Attempt::start() {
  Socket listener;
  std::string secret;
  if (options_.placement.ownListener) {
    Result<Socket> made = listenOn("127.0.0.1", 0);
    if (!made)
      return made.status();
    listener = std::move(*made);
    secret = options_.placement.tcp.secret;
    if (secret.empty()) { // other users of this machine stay out
      uint8_t random[16];
      fillRandom(random, sizeof random);
      secret = hexText(random, sizeof random);
    }
  }
  for (const Child &child : options_.placement.children)
    if (Status status = spawn(child, listener, secret); !status) {
      signalAll(SIGKILL);
      return status;
    }
  return Status();
}

void Attempt::reap(double &killAt) {
  for (Process &process : processes_) {
    int status = 0;
    if (process.pid < 0 || waitpid(process.pid, &status, WNOHANG) != process.pid)
      continue;
    process.pid = -1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status) && !failed_)
      say(nameOf(*process.child) + " was ended by signal " + std::to_string(WTERMSIG(status)) +
          " (" + strsignal(WTERMSIG(status)) + ")");
    if (code != 0 && code != kExitInterrupted && !failed_) {
      failed_ = true;
      code_ = WIFSIGNALED(status) ? 1 : code;
      killAt = monotonicSeconds() + options_.graceSeconds;
    } else if (!failed_ && code == kExitInterrupted) {
      code_ = code;
    }
  }
}

int Attempt::wait(bool &interrupted) {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM})
    sigaddset(&awaited, signal);
  double killAt = 0;
  auto running = [&] {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const Process &process) { return process.pid > 0; });
  };
  while (reap(killAt), running()) {
    const timespec pause = {0, 200'000'000};
    siginfo_t info = {};
    const int signal = sigtimedwait(&awaited, &info, &pause);
    if (signal == SIGINT || signal == SIGTERM) {
      interrupted = true;
      // What the terminal sends, it sends to the children as well.
      if (info.si_code != SI_KERNEL)
        signalAll(signal);
    }
    if (killAt > 0 && monotonicSeconds() > killAt) {
      for (const Process &process : processes_)
        if (process.pid > 0)
          say(nameOf(*process.child) + " does not end and is killed");
      signalAll(SIGKILL);
      killAt = 0;
    }
  }
  return code_;
}

} // namespace

int supervise(const SupervisorOptions &options) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM})
    sigaddset(&blocked, signal);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  for (int number = 0;; ++number) {
    Attempt attempt(options, number, before);
    if (Status status = attempt.start(); !status) {
      say(status.message());
      return 1;
    }
    bool interrupted = false;
    const int code = attempt.wait(interrupted);
    if (code == 0 || interrupted || number >= options.restarts || code == kExitUsage ||
        code == kExitNumerics || code == kExitInterrupted)
      return code;
    say("starting again (" + std::to_string(number + 1) + " of " +
        std::to_string(options.restarts) + ")");
  }
}

} // namespace tessera::rt
