// Runs the suite on one transport:
//   comm_conformance --transport thread --ranks 4
//   comm_conformance --transport tcp --ranks 4                     # processes that it forks
//   mpirun -n 4 comm_conformance --transport mpi [--abort 1]
// Prints one line per failed check, with its rank, and returns 1 if there is any.

#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/comm/tcp/Socket.h"
#include "runtime/comm/tcp/TcpWorld.h"
#include "runtime/comm/threads/ThreadWorld.h"
#include "test/conformance/comm/Suite.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tessera::rt;
using namespace tessera::rt::conformance;

namespace {

std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (auto *list : {collectiveCases, exchangeCases, messageCases, failureCases})
    for (const Case &c : list())
      cases.push_back(c);
  return cases;
}

/// Runs cases on one rank; returns its failures as text lines.
std::string runRank(World &world, const std::vector<Case> &cases, long &checks) {
  std::string text;
  for (const Case &c : cases) {
    Check check;
    c.run(world, check);
    checks += check.checks();
    for (const std::string &failure : check.failures())
      text += std::string(c.name) + ": rank " + std::to_string(world.rank()) + ": " + failure + "\n";
  }
  return text;
}

std::vector<Case> casesWithAbort() {
  std::vector<Case> cases = allCases();
  for (const Case &c : abortCases())
    cases.push_back(c);
  return cases;
}

int runThreads(int ranks) {
  const std::vector<Case> cases = casesWithAbort();
  std::vector<std::unique_ptr<World>> worlds = createThreadWorlds(ranks);
  std::vector<std::string> texts(ranks);
  std::vector<long> checks(ranks, 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { texts[r] = runRank(*worlds[r], cases, checks[r]); });
  for (std::thread &thread : threads)
    thread.join();
  bool failed = false;
  for (int r = 0; r < ranks; ++r) {
    std::fputs(texts[r].c_str(), stderr);
    failed |= !texts[r].empty() || checks[r] == 0;
  }
  std::printf("%d thread ranks, %ld checks on rank 0: %s\n", ranks, checks[0], failed ? "FAILED" : "passed");
  return failed;
}

int runTcpRank(const TcpOptions &options) {
  Result<std::unique_ptr<World>> world = createTcpWorld(options);
  if (!world) {
    std::fprintf(stderr, "rank %d: %s\n", options.rank, world.status().message().c_str());
    return 2;
  }
  long checks = 0;
  const std::string text = runRank(**world, casesWithAbort(), checks);
  std::fputs(text.c_str(), stderr);
  const bool failed = !text.empty() || checks == 0;
  if (options.rank == 0)
    std::printf("%d TCP ranks, %ld checks on rank 0: %s\n", options.ranks, checks, failed ? "FAILED" : "passed");
  return failed;
}

int runTcp(int ranks) {
  TcpOptions options;
  options.ranks = ranks;
  options.address = "127.0.0.1";
  options.secret = options.plan = "suite";
  Result<Socket> listener = listenOn(options.address, 0);
  if (!listener) {
    std::fprintf(stderr, "%s\n", listener.status().message().c_str());
    return 2;
  }
  options.port = localPort(*listener);
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r)
    if (pid_t child = fork(); child != 0) {
      children.push_back(child);
    } else {
      options.rank = r;
      options.listener = r == 0 ? dup(listener->fd()) : -1;
      *listener = Socket();
      const int code = runTcpRank(options);
      std::fflush(stdout);
      _exit(code);
    }
  *listener = Socket();
  bool failed = false;
  for (pid_t child : children) {
    int status = 0;
    failed |= waitpid(child, &status, 0) != child || status != 0;
  }
  return failed;
}

int runMpi(bool aborting) {
  Result<std::unique_ptr<World>> world = createMpiWorld();
  if (!world) {
    std::fprintf(stderr, "%s\n", world.status().message().c_str());
    return 2;
  }
  long checks = 0;
  const std::string text = runRank(**world, aborting ? abortCases() : allCases(), checks);
  std::fputs(text.c_str(), stderr);
  if (aborting) // the job ends inside the case
    std::fprintf(stderr, "returned from a collective of an aborted world\n");
  // mpirun reports the worst exit code of all ranks.
  const bool failed = aborting || !text.empty() || checks == 0;
  if ((*world)->rank() == 0)
    std::printf("%d MPI ranks, %ld checks on rank 0: %s\n", (*world)->size(), checks, failed ? "FAILED" : "passed");
  return failed;
}

} // namespace

int main(int argc, char **argv) {
  // Numbers of one case after another take the memory of those before: fresh pages took a third of the time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  std::string transport = "thread";
  int ranks = 2;
  bool aborting = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--transport"))
      transport = argv[i + 1];
    else if (!std::strcmp(argv[i], "--ranks"))
      ranks = std::atoi(argv[i + 1]);
    else if (!std::strcmp(argv[i], "--abort"))
      aborting = std::atoi(argv[i + 1]);
  }
  if (transport == "thread" && ranks > 0)
    return runThreads(ranks);
  if (transport == "tcp" && ranks > 0)
    return runTcp(ranks);
  if (transport == "mpi")
    return runMpi(aborting);
  std::fprintf(stderr, "comm_conformance: no transport '%s'\n", transport.c_str());
  return 2;
}
