#include "tools/profile/Network.h"

#include "runtime/check/Check.h"
#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/comm/tcp/TcpWorld.h"
#include "runtime/launch/LaunchContext.h"
#include "runtime/launch/Launcher.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tessera {

using namespace rt;

namespace {

const char *environment(const char *name) { return std::getenv(name); }

/// Plans that need nothing, with one group of all ranks.
PlanDirectory emptyPlans(int ranks) {
  PlanDirectory plans;
  for (int rank = 0; rank < ranks; ++rank) {
    plan::Plan &plan = plans.ranks.emplace_back();
    plan.set_rank(uint64_t(rank));
    plan.set_plan_id("none");
    plan::Group &all = *plan.add_groups();
    all.set_name("all");
    for (int member = 0; member < ranks; ++member)
      all.add_ranks(uint32_t(member));
  }
  return plans;
}

Result<std::unique_ptr<World>> join(const LaunchContext &context, double peerTimeout) {
  if (context.transport == Transport::Mpi)
    return createMpiWorld(peerTimeout);
  TcpOptions options = context.tcp;
  options.ranks = context.ranks;
  options.plan = "network";
  return createTcpWorld(options);
}

/// Runs `body` as the rank that a launcher has made of this process.
Status asLaunched(const std::function<Status(World &, const LaunchContext &)> &body) {
  LaunchOptions options;
  options.elastic = true; // the launcher says how many ranks there are
  Result<LaunchContext> context = decideLaunch(options, 1, environment);
  if (!context)
    return context.status().context("--network");
  if (context->transport == Transport::Threads)
    return Status::error("--network: start it as the run will be started: by torchrun, mpirun or srun, or with RANK, "
                         "WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  Result<std::unique_ptr<World>> world = join(*context, options.peerTimeout);
  if (!world)
    return world.status();
  std::vector<std::unique_ptr<World>> worlds;
  worlds.push_back(std::move(*world));
  return runRanks(std::move(worlds), [&](World &world) { return body(world, *context); });
}

llvm::Error measure(const MeasureOptions &options, strategies::ProfileTable &table, const Progress &progress) {
  if (llvm::Error e = measureCollectives(options, table, progress))
    return e;
  return measureBeside(options, table, progress);
}

} // namespace

Status checkNetwork(bool json) {
  Status found;
  Status status = asLaunched([&](World &world, const LaunchContext &context) -> Status {
    CheckOptions check;
    check.localRank = context.localRank;
    if (context.transport == Transport::Mpi)
      check.libraries = mpiLibrary();
    Result<CheckReport> report = checkRanks(emptyPlans(world.size()), check, world);
    if (!report)
      return report.status();
    if (world.rank() != 0)
      return Status();
    std::fputs((json ? checkJson(*report) : checkText(*report)).c_str(), stdout);
    found = checkFault(*report);
    return Status();
  });
  return status.ok() ? found : status;
}

Status measureNetwork(MeasureOptions options, strategies::ProfileTable &table, const Progress &progress,
                      bool &isFirst) {
  table.forgetCollectives();
  return asLaunched([&](World &world, const LaunchContext &context) -> Status {
    if (world.size() != int(options.mesh.numRanks()))
      return Status::error("--network: the mesh has " + std::to_string(options.mesh.numRanks()) +
                           " ranks, but the launcher started " + std::to_string(world.size()));
    isFirst = world.rank() == 0;
    options.world = &world;
    options.ranksHere = std::max(1, context.localRanks);
    llvm::Error e = measure(
        options, table, isFirst ? progress : [](const std::string &) {});
    return e ? Status::error(llvm::toString(std::move(e))) : Status();
  });
}

} // namespace tessera
