// A task of Slurm's srun takes its place from variables. Some of them are refused.
#include "runtime/launch/SlurmTask.h"
#include "runtime/launch/LaunchContext.h"
#include "runtime/launch/Launcher.h"
#include "runtime/support/Threads.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

using namespace tessera::rt;
using Catch::Matchers::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

// The third task of `srun -N2 -n4` under Slurm 22.05.
const Variables kTask = {
    {"SLURM_JOB_ID", "4711"},  {"SLURM_STEP_ID", "2"},      {"SLURM_STEP_NUM_TASKS", "4"},
    {"SLURM_NTASKS", "4"},     {"SLURM_PROCID", "2"},       {"SLURM_LOCALID", "0"},
    {"SLURM_GTIDS", "2,3"},    {"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_STEP_NODELIST", "n[0-1]"},
    {"SLURMD_NODENAME", "n1"}, {"SLURM_NODEID", "1"},       {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};

Environment environment(const Variables &variables) {
  return [variables](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

Result<LaunchContext> place(Variables variables, const Variables &more = {}, const LaunchOptions &options = {},
                            int ranks = 4) {
  for (const auto &[name, value] : more)
    variables[name] = value;
  return decideLaunch(options, ranks, environment(variables));
}

std::string refused(const Variables &more) { return place(kTask, more).status().message(); }

} // namespace

TEST_CASE("a task of srun is a rank") {
  Result<LaunchContext> p = place(kTask);
  INFO(p.status().message());
  REQUIRE(p.ok());
  CHECK(p->transport == Transport::Tcp);
  CHECK(p->tcp.rank == 2);
  CHECK(p->tcp.ranks == 4);
  CHECK(p->tcp.address == "n0");
  CHECK(p->tcp.port == 27112);
  CHECK(p->localRank == 0);
  CHECK(p->localRanks == 2);
  CHECK(p->localCores == 8);
  CHECK(p->children.empty());
  // Steps and jobs that run at the same time on one node meet at different ports.
  CHECK(place(kTask, {{"SLURM_STEP_ID", "3"}})->tcp.port == 27113);
  CHECK(place(kTask, {{"SLURM_JOB_ID", "4712"}})->tcp.port == 27122);
  for (const char *job : {"0", "999", "67043328", "2147483647"}) {
    const int port = place(kTask, {{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", "2147483647"}})->tcp.port;
    CHECK(port >= 20000);
    CHECK(port < 30000);
  }
}

TEST_CASE("the place where srun's tasks meet can be told") {
  Result<LaunchContext> p = place(kTask, {{"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "29500"}});
  REQUIRE(p.ok());
  CHECK(p->tcp.rank == 2);
  CHECK(p->tcp.address == "10.0.0.7");
  CHECK(p->tcp.port == 29500);
  CHECK_THAT(refused({{"MASTER_PORT", "0"}}), Contains("MASTER_PORT=0"));
  // srun --distribution=arbitrary may put task 0 elsewhere.
  const Variables first = {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_GTIDS", "0"}};
  CHECK_THAT(refused(first), Contains("task 0 runs on n1") && Contains("n0") && Contains("MASTER_ADDR=n1"));
  Variables told = first;
  told["MASTER_ADDR"] = "n1";
  CHECK(place(kTask, told)->tcp.address == "n1");
}

TEST_CASE("options of a person come before variables of Slurm") {
  LaunchOptions processes;
  processes.processes = true;
  CHECK(place(kTask, {}, processes)->children.size() == 4);
  const Variables torch = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  CHECK(place(kTask, torch)->tcp.rank == 1);
  CHECK(place(kTask, torch)->localCores == 0);
}

TEST_CASE("a process that is no task of several runs all ranks") {
  // The script of a job has the number of its task, but no step.
  Variables script = kTask;
  for (const char *name : {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"})
    script.erase(name);
  CHECK(place(script)->transport == Transport::Threads);
  CHECK(place(kTask, {{"SLURM_STEP_NUM_TASKS", "1"}})->transport == Transport::Threads);
  // A shell in an allocation (salloc) has a number of a step that does not exist.
  CHECK(place(kTask, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_ID", "4294967290"}})->transport ==
        Transport::Threads);
}

TEST_CASE("a supervisor and its rank take the same place") {
  LaunchOptions options;
  options.restarts = 3;
  Result<LaunchContext> supervisor = place(kTask, {}, options);
  REQUIRE(supervisor.ok());
  REQUIRE(supervisor->children.size() == 1);
  CHECK(supervisor->children[0].rank == 2);
  Result<LaunchContext> rank = place(kTask, {{"TESSERA_ATTEMPT", "1"}}, options);
  REQUIRE(rank.ok());
  CHECK(rank->children.empty());
  CHECK(rank->attempt == 1);
  CHECK(rank->tcp.rank == 2);
  CHECK(rank->tcp.port == supervisor->tcp.port);
}

TEST_CASE("variables of Slurm that make no sense are named") {
  CHECK_THAT(place(kTask, {}, {}, 8).status().message(),
             Contains("a plan for 8 ranks, but srun started 4 tasks") && Contains("srun -n 8"));
  for (const char *bad : {"", "x", "-1", "1.5", "99999999999999999999"})
    for (const char *name : {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID", "SLURM_JOB_ID"})
      CHECK_THAT(refused({{name, bad}}), Contains(std::string(name) + "=" + bad));
  CHECK_THAT(refused({{"SLURM_PROCID", "4"}}), Contains("SLURM_PROCID=4"));
  for (const char *bad : {"", "0,1,2,3,4"})
    CHECK_THAT(refused({{"SLURM_GTIDS", bad}}), Contains("SLURM_GTIDS=" + std::string(bad)));
  CHECK_THAT(refused({{"SLURM_LOCALID", "2"}}), Contains("SLURM_GTIDS=2,3") && Contains("number 2"));
  for (const char *bad : {"", "[", "n[", "n[]", "n[,1]", ",n1"})
    CHECK_THAT(refused({{"SLURM_STEP_NODELIST", bad}}), Contains("SLURM_STEP_NODELIST=" + std::string(bad)));
  Variables without = kTask;
  without.erase("SLURM_PROCID");
  CHECK_THAT(place(without).status().message(),
             Contains("SLURM_PROCID is not set") && Contains("SLURM_STEP_NUM_TASKS is"));
}

TEST_CASE("the first host of a list") {
  for (const auto &[list, host] : {std::pair<const char *, const char *>{"n0", "n0"},
                                   {"n0,n1", "n0"},
                                   {"n[0-1]", "n0"},
                                   {"n[07,09-12],login", "n07"},
                                   {"n[3],m[1-2]", "n3"},
                                   {"rack[2-3]n[08-09]", "rack2n08"},
                                   {"gpu-[1-4].site.org", "gpu-1.site.org"}})
    CHECK(firstHostOf(list) == host);
}

TEST_CASE("cores of a node are shared once") {
  const int available = availableCores();
  CHECK(threadsPerRank(1) == available);
  CHECK(threadsPerRank(1000000) == 1);
  // This process may be bound to its share of them already.
  CHECK(threadsPerRank(2, 2 * available) == available);
  CHECK(threadsPerRank(4, 2 * available) == std::max(available / 2, 1));
  // The process may use the cores of other jobs as well.
  CHECK(threadsPerRank(1, 1) == 1);
  CHECK(threadsPerRank(8, 4) == 1);
}
