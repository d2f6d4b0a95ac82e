#include "runtime/launch/Elastic.h"

#include "runtime/support/ExitCodes.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr size_t kMostOutput = 4096;

struct Ended {
  int status = 0; // as waitpid returns it
  std::string text;
};

std::string planFor(const std::string &folder, int ranks) { return folder + "/plan-" + std::to_string(ranks); }

/// Runs a program to its end; the last of what it wrote.
Result<Ended> runProgram(const std::vector<std::string> &command) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Status::error(command[0] + ": cannot be started: " + std::strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) {
    // Between fork and exec only functions are called that are safe there.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  char buffer[1024];
  for (ssize_t got = 1; pid > 0 && got != 0;) {
    got = read(ends[0], buffer, sizeof buffer);
    if (got < 0 && errno != EINTR)
      break;
    ended.text.append(buffer, size_t(std::max<ssize_t>(got, 0)));
    if (ended.text.size() > kMostOutput)
      ended.text.erase(0, ended.text.size() - kMostOutput);
  }
  close(ends[0]);
  if (pid < 0 || waitpid(pid, &ended.status, 0) != pid)
    return Status::error(command[0] + ": cannot be started: " + std::strerror(errno));
  while (!ended.text.empty() && ended.text.back() == '\n')
    ended.text.pop_back();
  return ended;
}

} // namespace

Result<Elastic> Elastic::open(const std::string &plan, const std::string &folder) {
  Elastic elastic;
  Result<Recipe> recipe = readRecipe(plan);
  if (!recipe)
    return recipe.status();
  elastic.recipe_ = std::move(*recipe);
  if (elastic.recipe_.mode == "hybrid")
    return Status::error(plan + ": the model file is one rank's program (mode hybrid) and made for "
                                "this mesh alone");
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  elastic.compiler_ = self.parent_path() / "tessera-compile";
  if (access(elastic.compiler_.c_str(), X_OK) != 0)
    return Status::error(elastic.compiler_ + ": is needed to compile the plan for fewer ranks, but does not exist");
  elastic.folder_ = folder;
  TESSERA_RETURN_IF_ERROR(elastic.recipe_.checkFiles());
  return elastic;
}

Result<std::optional<Elastic::Refusal>> Elastic::compileFor(const Next &next) const {
  std::vector<std::string> command = {
      compiler_, recipe_.model, "--mesh=" + next.mesh, "--mode=" + recipe_.mode, "--output=" + next.plan, "--quiet"};
  const std::vector<std::string> arguments = argumentsFor(recipe_, next.mesh);
  command.insert(command.end(), arguments.begin(), arguments.end());
  Result<Ended> ended = runProgram(command);
  if (!ended)
    return ended.status();
  if (ended->status == 0)
    return std::optional<Refusal>();
  const bool signal = WIFSIGNALED(ended->status);
  // A mesh that does not go with another option, such as --reproducible, is a wrong command line.
  Refusal refusal{"compiling for the mesh " + next.mesh + " failed: " + ended->text,
                  signal || (WEXITSTATUS(ended->status) != kExitError && WEXITSTATUS(ended->status) != kExitUsage)};
  if (signal)
    refusal.why += "ended by signal " + std::to_string(WTERMSIG(ended->status));
  return std::optional(std::move(refusal));
}

Result<Elastic::Next> Elastic::compile(int ranks) const {
  TESSERA_RETURN_IF_ERROR(recipe_.checkFiles());
  TESSERA_RETURN_IF_ERROR(makeDirectory(folder_));
  std::string first;
  for (int n = ranks; n > 0; --n) {
    const Next next = {planFor(folder_, n), meshFor(recipe_.mesh, n), n,
                       first.empty() ? "" : "not " + std::to_string(ranks) + ": " + first};
    Result<std::optional<Refusal>> refusal = compileFor(next);
    if (!refusal)
      return refusal.status();
    if (!*refusal)
      return next;
    // A failure of the compiler, and not of this mesh, would only come again.
    if ((*refusal)->lasting)
      return Status::error((*refusal)->why);
    if (first.empty())
      first = (*refusal)->why;
  }
  return Status::error(first.empty() ? "no rank is left" : first);
}

Result<std::string> Elastic::fitting(int ranks) const {
  TESSERA_RETURN_IF_ERROR(makeDirectory(folder_));
  const Next next = {planFor(folder_, ranks), meshFor(recipe_.mesh, ranks), ranks, ""};
  // The first that comes compiles; the others wait for it, and find what it has made.
  const std::string lock = folder_ + "/.plan-" + std::to_string(ranks) + ".lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || ::flock(fd, LOCK_EX) != 0) {
    const Status status = Status::error(lock + ": cannot be locked: " + std::strerror(errno));
    if (fd >= 0)
      ::close(fd);
    return status;
  }
  Recipe wanted = recipe_;
  wanted.mesh = next.mesh;
  wanted.arguments = argumentsFor(recipe_, next.mesh);
  const Result<Recipe> there = readRecipe(next.plan);
  Result<std::optional<Refusal>> refusal = std::optional<Refusal>();
  if (!there || there->format() != wanted.format())
    refusal = compileFor(next);
  ::close(fd);
  if (!refusal)
    return refusal.status();
  return *refusal ? Result<std::string>(Status::error((*refusal)->why)) : Result<std::string>(next.plan);
}

void keepRanks(LaunchContext &context, const std::vector<int> &ranks, const std::string &plan) {
  auto place = [&](int rank) { return int(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin()); };
  const int count = int(ranks.size());
  std::vector<Child> &children = context.children;
  std::erase_if(children, [&](const Child &child) { return place(child.rank) == count; });
  std::vector<std::string> machines;
  for (int rank : ranks)
    if (!context.machines.empty())
      machines.push_back(context.machines[size_t(rank)]);
  context.machines = std::move(machines);
  context.tcp.ranks = count;
  for (Child &child : children) {
    child.rank = place(child.rank);
    child.set("RANK", std::to_string(child.rank));
    child.set("WORLD_SIZE", std::to_string(count));
    child.set("LOCAL_WORLD_SIZE", std::to_string(children.size()));
    if (!context.machines.empty())
      child.set("MASTER_ADDR", context.machines[0]);
    if (!plan.empty())
      child.set("TESSERA_PLAN", plan);
  }
}

} // namespace tessera::rt
