#include "runtime/launch/Supervisor.h"

#include "runtime/comm/tcp/Handshake.h"
#include "runtime/launch/Environment.h"
#include "runtime/launch/Survivors.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tessera::rt {
namespace {

/// How long after a failure SIGTERM is sent. Ranks that run notice the failure by themselves, write their own message,
/// and only note the signal. Ranks that still wait for the failed one at the rendezvous end by it.
constexpr double kTermSeconds = 0.5;

/// The pause before another start doubles from start to start. The first is short, since most failures are a rank that
/// was killed.
constexpr double kFirstPause = 0.5, kLongestPause = 60;
/// The number of bytes of an error that a supervisor compares.
constexpr size_t kMostError = 1000;
constexpr const char *kErrorPipe = "TESSERA_ERRORS";

struct Process {
  const Child *child;
  pid_t pid = -1;
};

void say(const std::string &text) { printError("tessera-run: " + text); }

std::string nameOf(const Child &child) { return child.rank < 0 ? "the run" : "rank " + std::to_string(child.rank); }

/// The environment, where the variables in `added` replace those of the same names.
std::vector<std::string> environmentWith(const std::vector<std::pair<std::string, std::string>> &added) {
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
  int wait(int &interrupted);
  /// What the ranks that failed by themselves had to say.
  std::string errors() const;
  /// Whether a rank failed in a way that another start would repeat.
  bool lasting() const { return lasting_; }
  /// The ranks that a signal ended, and those that ended by an error of their own.
  const std::set<int> &killed() const { return killed_; }
  const std::set<int> &failed() const { return failedRanks_; }

private:
  Status spawn(const Child &child, const Socket &listener, const std::string &secret);
  void reap(int interrupted);
  void killStopped();
  void signalAll(int signal) {
    for (const Process &process : processes_)
      if (process.pid > 0)
        kill(process.pid, signal);
  }

  const SupervisorOptions &options_;
  const int number_;
  const sigset_t &before_;
  std::vector<Process> processes_;
  Socket errorsOut_, errorsIn_; // descriptors of a pipe
  std::set<int> killed_, failedRanks_;
  int code_ = 0;
  bool failed_ = false, lasting_ = false, sentTerm_ = false, sentKill_ = false;
  double termAt_ = 0, killAt_ = 0; // 0: the signal is not to be sent
};

/// Whether SIGSTOP or a debugger has stopped the process. Then only SIGKILL ends it.
bool isStopped(pid_t pid) {
  // A file of /proc has no size.
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name = stat.rfind(')');
  return name != std::string::npos && name + 2 < stat.size() && (stat[name + 2] == 'T' || stat[name + 2] == 't');
}

Status Attempt::spawn(const Child &child, const Socket &listener, const std::string &secret) {
  auto added = child.environment;
  added.push_back({"TESSERA_ATTEMPT", std::to_string(number_)});
  added.push_back({kErrorPipe, std::to_string(errorsIn_.fd())});
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
  // Between fork and exec only functions are called that are safe there.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(1);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (errorsIn_)
    fcntl(errorsIn_.fd(), F_SETFD, 0); // the child inherits it
  if (listener && child.rank == 0) {
    // The copy has no "close on exec", so the child inherits it.
    const int kept = dup(listener.fd());
    dup2(kept, listener.fd());
    close(kept);
  }
  execve("/proc/self/exe", options_.arguments, pointers.data());
  _exit(127);
}

Status Attempt::start() {
  if (int ends[2]; pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) // without a pipe, no two errors count as the same
    errorsOut_ = Socket(ends[0]), errorsIn_ = Socket(ends[1]);
  Socket listener;
  std::string secret;
  if (options_.context.ownListener) {
    Result<Socket> made = listenOn("127.0.0.1", 0);
    if (!made)
      return made.status();
    listener = std::move(*made);
    secret = options_.context.tcp.secret;
    if (secret.empty()) { // keeps other users of this machine out
      uint8_t random[16];
      fillRandom(random, sizeof random);
      secret = hexText(random, sizeof random);
    }
  }
  for (const Child &child : options_.context.children)
    if (Status status = spawn(child, listener, secret); !status) {
      signalAll(SIGKILL);
      return status;
    }
  return Status();
}

std::string Attempt::errors() const {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; errorsOut_ && (got = read(errorsOut_.fd(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(got));
  return text;
}

void Attempt::reap(int interrupted) {
  for (Process &process : processes_) {
    int status = 0;
    if (process.pid < 0 || waitpid(process.pid, &status, WNOHANG) != process.pid)
      continue;
    process.pid = -1;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = signal ? exitCodeOf(signal) : WEXITSTATUS(status);
    // A rank that still waits for the others ends by the signal itself.
    const bool stopped = isInterrupt(code) && (!signal || signal == interrupted);
    const bool ours = (signal == SIGTERM && sentTerm_) || (signal == SIGKILL && sentKill_);
    if (signal && !ours && !stopped)
      killed_.insert(process.child->rank);
    else if (code != 0 && code != kExitOther && !stopped)
      failedRanks_.insert(process.child->rank);
    lasting_ |= code == kExitLasting;
    if (code == kExitOther || code == kExitLasting)
      code = kExitError;
    if (signal && !stopped && !failed_)
      say(nameOf(*process.child) + " was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
          strsignal(WTERMSIG(status)) + ")");
    if (code != 0 && !stopped && !failed_) {
      failed_ = true;
      code_ = signal ? kExitError : code;
      termAt_ = monotonicSeconds() + kTermSeconds;
      killAt_ = monotonicSeconds() + options_.graceSeconds;
    } else if (!failed_ && stopped) {
      code_ = code;
    }
  }
}

void Attempt::killStopped() {
  for (const Process &process : processes_)
    if (process.pid > 0 && isStopped(process.pid)) {
      say(nameOf(*process.child) + " is stopped and is killed");
      killed_.insert(process.child->rank);
      kill(process.pid, SIGKILL);
    }
}

int Attempt::wait(int &interrupted) {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM})
    sigaddset(&awaited, signal);
  auto running = [&] {
    return std::any_of(processes_.begin(), processes_.end(), [](const Process &process) { return process.pid > 0; });
  };
  while (reap(interrupted), running()) {
    const timespec pause = {0, 200'000'000};
    siginfo_t info = {};
    const int signal = sigtimedwait(&awaited, &info, &pause);
    if (signal == SIGINT || signal == SIGTERM) {
      if (interrupted == 0)
        interrupted = signal;
      // What the terminal sends, it sends to the children as well.
      if (info.si_code != SI_KERNEL)
        signalAll(signal);
    }
    if (failed_)
      killStopped();
    if (termAt_ > 0 && interrupted == 0 && monotonicSeconds() > termAt_) {
      sentTerm_ = true;
      signalAll(SIGTERM);
      termAt_ = 0;
    }
    if (killAt_ > 0 && monotonicSeconds() > killAt_) {
      for (const Process &process : processes_)
        if (process.pid > 0)
          say(nameOf(*process.child) + " does not end and is killed");
      sentKill_ = true;
      signalAll(SIGKILL);
      killAt_ = 0;
    }
  }
  return code_;
}

/// Decides which ranks the next attempt goes on with and sets them in the context. Returns the text for the message
/// about it.
Result<std::string> regroup(SupervisorOptions &options, const Attempt &attempt, int number,
                            const std::optional<Survivors> &survivors, std::set<int> &failedBefore) {
  LaunchContext &context = options.context;
  std::set<int> lost = attempt.killed(), left;
  std::set_intersection(attempt.failed().begin(), attempt.failed().end(), failedBefore.begin(), failedBefore.end(),
                        std::inserter(lost, lost.end()));
  for (const Child &child : context.children)
    if (!lost.contains(child.rank))
      left.insert(child.rank);
  auto decide = [&](const std::set<int> &all) -> Result<Survivors::Decision> {
    Survivors::Decision decision{{all.begin(), all.end()}, "", ""};
    const int ranks = context.tcp.ranks;
    if (all.size() == size_t(ranks))
      return decision;
    Result<Elastic::Next> next = options.elastic->compile(int(all.size()));
    if (!next)
      return next.status();
    std::string names;
    for (int rank = 0; rank < ranks; ++rank)
      if (!all.contains(rank))
        names += (names.empty() ? "" : ", ") + std::to_string(rank);
    decision.ranks.resize(size_t(next->ranks));
    decision.plan = next->plan;
    decision.text = " on " + std::to_string(next->ranks) + (next->ranks == 1 ? " rank" : " ranks") + " (" + next->mesh +
                    ", " + next->plan + ") without rank " + names + (next->note.empty() ? "" : "; " + next->note);
    return decision;
  };
  const std::set<std::string> machines(context.machines.begin(), context.machines.end());
  Result<Survivors::Decision> decision = survivors ? survivors->agree(number, left, machines, decide) : decide(left);
  if (!decision)
    return decision.status();
  if (decision->ranks.back() >= context.tcp.ranks) // the decision may come from another machine, so it is checked
    return Status::error("there is no rank " + std::to_string(decision->ranks.back()));
  failedBefore = attempt.failed();
  if (!decision->plan.empty())
    failedBefore.clear(); // from now on the numbers mean other ranks
  keepRanks(context, decision->ranks, decision->plan);
  if (context.children.empty())
    return Status::error("the others go on without this machine");
  return decision->text;
}

/// Waits until another start. Returns the signal that says that there shall be none, else 0.
int pauseFor(double seconds) {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (int signal : {SIGINT, SIGTERM})
    sigaddset(&awaited, signal);
  const double end = monotonicSeconds() + seconds;
  double left = seconds;
  while (left > 0) {
    const timespec pause = {time_t(left), long((left - double(time_t(left))) * 1e9)};
    if (const int signal = sigtimedwait(&awaited, nullptr, &pause); signal > 0)
      return signal;
    left = end - monotonicSeconds();
  }
  return 0;
}

} // namespace

void tellSupervisor(const std::string &error) {
  const Result<int> pipe = numberIn(std::getenv, kErrorPipe, INT32_MAX, -1);
  if (!pipe.ok() || *pipe < 0)
    return; // no supervisor started this process
  const std::string line = printable(error).substr(0, kMostError) + "\n";
  static_cast<void>(!write(*pipe, line.data(), line.size()));
}

double restartPause(int failures) {
  return failures <= 0 ? 0 : std::min(kLongestPause, kFirstPause * std::exp2(std::min(failures - 1, 30)));
}

int supervise(SupervisorOptions options) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM})
    sigaddset(&blocked, signal);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  std::set<int> failedBefore;
  std::optional<Survivors> survivors;
  auto hasFirst = [&] { return options.context.children[0].rank == 0; };
  if (options.elastic && !options.context.machines.empty()) {
    survivors.emplace(options.folder, options.context.machine, options.graceSeconds + options.context.tcp.peerTimeout);
    survivors->begin(hasFirst());
  }
  int failures = 0;  // in a row without a new checkpoint
  std::string error; // the message of the last failure
  for (int number = 0;; ++number) {
    const int64_t stepBefore = options.lastCheckpoint();
    Attempt attempt(options, number, before);
    if (Status status = attempt.start(); !status) {
      say(status.message());
      return 1;
    }
    int interrupted = 0; // by this signal
    const int code = attempt.wait(interrupted);
    if (code == 0 && survivors && hasFirst())
      survivors->end();
    if (code == 0 || interrupted != 0 || number >= options.restarts || code == kExitUsage || code == kExitNumerics ||
        isInterrupt(code))
      return code;
    if (attempt.lasting() && number == 0) {
      say("not started again: this failure would come again");
      return code;
    }
    const bool advanced = options.lastCheckpoint() > stepBefore;
    const std::string last = std::exchange(error, advanced ? "" : attempt.errors());
    failures = advanced ? 0 : failures + 1;
    std::string where;
    if (options.elastic) {
      Result<std::string> regrouped = regroup(options, attempt, number, survivors, failedBefore);
      if (!regrouped) {
        say("cannot go on with the ranks that are left: " + regrouped.status().message());
        return 1;
      }
      where = *regrouped;
    }
    if (where.empty() && !last.empty() && last == error) { // and the ranks are the same
      say("not started again: the same failure twice, without a new checkpoint");
      return code;
    }
    if (const int signal = pauseFor(restartPause(failures)); signal != 0)
      return exitCodeOf(signal);
    say("starting again" + where + " (" + std::to_string(number + 1) + " of " + std::to_string(options.restarts) + ")");
  }
}

} // namespace tessera::rt
