// runPlan: what every mode has in common.
#include "runtime/session/Session.h"
#include "runtime/checkpoint/FolderLock.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/session/Profile.h"
#include "runtime/support/BytesText.h"
#include "runtime/telemetry/Monitor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>

namespace tessera::rt {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

DataOptions Session::dataOptions(bool train) const {
  DataOptions data;
  DataState before = resumed ? resumed->data : DataState();
  data.seed = options.seed.value_or(before.seed);
  data.train = train;
  data.threads = options.threads;
  data.shuffle = options.shuffle;
  data.augment = options.augment;
  if (train && !data.shuffle)
    data.shuffle = before.shuffle;
  if (train && !data.augment)
    data.augment = before.augment;
  return data;
}

Status Session::lasting(Status status) const {
  if (!status && world.aborted().empty())
    std::atomic_ref(result.lasting).store(true); // ranks may be threads
  return status;
}

Result<int64_t> Session::firstBatch(const DataSource &data) const {
  if (!resumed)
    return int64_t(0);
  constexpr int64_t kMost = int64_t(1) << 62;
  const RunPosition &position = resumed->position;
  const auto batch = int64_t(std::max<uint64_t>(executor.plan().global_batch(), 1));
  int64_t first = 0;
  if (__builtin_mul_overflow(position.epoch, data.batchesPerEpoch(), &first) ||
      first > kMost - position.sample / batch - position.step)
    return Status::error(checkpoint + ": says that the run was in epoch " + std::to_string(position.epoch) +
                         ", which no run comes to");
  return first + position.sample / batch;
}

LoadOptions loadOptions(const RunOptions &options) {
  LoadOptions load;
  load.threads = options.threads;
  load.widen = options.widen;
  load.device.tf32 = options.tf32;
  load.device.tiledAttention = options.tiledAttention;
  load.device.graphs = options.graphs;
  load.device.keepNan = options.numerics != NumericsPolicy::Ignore;
  return load;
}

namespace {

/// How many seconds a run waits for the lock of --checkpoint-dir. At a first start the run before may not have ended
/// yet. After a restart a file server may free the lock of a lost machine only late (NFS 4: after 90 s).
constexpr double kLockPatience = 2, kLockPatienceOfRestart = 100;

/// This rank's place in the mesh: "data 1, model 0".
std::string coordinatesText(const plan::Plan &plan) {
  uint64_t stride = 1;
  for (const plan::MeshAxis &axis : plan.mesh())
    stride *= axis.size();
  std::string text;
  for (const plan::MeshAxis &axis : plan.mesh()) {
    stride /= axis.size();
    text += (text.empty() ? "" : ", ") + axis.name() + " " + std::to_string(placeInMesh(plan) / stride % axis.size());
  }
  return text.empty() ? "the only one" : text;
}

/// Writes the head of a rank's log.
void introduceRank(Session &s) {
  const plan::Plan &plan = s.executor.plan();
  s.log.line(s.options.program + ", plan " + s.plan.path + " (" + plan.plan_id() + "), model " + plan.model());
  s.log.line("rank " + std::to_string(s.world.rank()) + " of " + std::to_string(s.world.size()) +
             (s.options.transport.empty() ? "" : " as " + s.options.transport) + ", mesh " + meshText(plan) + ", at " +
             coordinatesText(plan));
  s.log.line(processText() + ", " + std::to_string(s.options.threads) + " kernel threads, backend " +
             s.options.backend + s.platform.description);
  if (!s.platform.libraries.empty())
    s.log.line(s.platform.libraries);
  if (s.options.attempt > 0)
    s.log.line("restart " + std::to_string(s.options.attempt));
}

Status introduce(Session &s) {
  introduceRank(s);
  // Ranks differ a little in scratch memory, and in the arena if their blocks differ. The largest numbers are shown.
  int64_t memory[2] = {int64_t(s.executor.loaded().arenaBytes()), int64_t(s.executor.loaded().scratchBytes())};
  TESSERA_RETURN_IF_ERROR(s.executor.everyone().allReduce(memory, memory, 2, plan::I64, plan::MAX));
  if (!s.leader())
    return Status();
  const plan::Plan &plan = s.executor.plan();
  if (!s.options.transport.empty())
    s.console.line(s.options.program + ": plan " + plan.plan_id() + ", ranks are " + s.options.transport + "; " +
                   processText());
  s.console.line(plan.model() + ": " + std::to_string(s.world.size()) + " ranks (" + meshText(plan) + "), " +
                 std::to_string(s.options.threads) + (s.options.threads == 1 ? " thread" : " threads") +
                 " each, backend " + s.options.backend + s.platform.description + (s.options.widen ? " in f64" : "") +
                 (s.options.tf32 ? ", products in TF32" : ""));
  if (!s.platform.libraries.empty())
    s.console.line(s.platform.libraries);
  if (s.options.shareDevices)
    s.console.line("WARNING: --share-devices: ranks may share a device and every collective goes through host "
                   "memory; right for checking a plan, useless for measuring one");
  uint64_t arena = uint64_t(memory[0]), scratch = uint64_t(memory[1]);
  s.console.line("memory per rank: " + bytesText(arena + scratch) + " (arena " + bytesText(arena) +
                 ", kernel scratch " + bytesText(scratch) + ")");
  for (int p = 0; p < plan.programs_size(); ++p) {
    const plan::Program &program = plan.programs(p);
    const TimeOrder &order = s.executor.order(p);
    uint64_t sent = 0, collectives = 0, messages = 0, sends = 0, sentToStages = 0;
    for (int step = 0; step < program.steps_size(); ++step)
      if (const CollectiveCall *call = s.executor.collective(p, step)) {
        const uint64_t times = order.timesOf(uint32_t(step));
        sent += times * bytesSent(plan, program.steps(step).collective());
        collectives += times;
        messages += call->joined() ? 0 : times;
      } else if (const PeerCall *peer = s.executor.peerCall(p, step); peer && peer->sends()) {
        sends += order.timesOf(uint32_t(step));
        sentToStages += order.timesOf(uint32_t(step)) * peer->bytes();
      }
    const int staged = s.executor.stagedCollectives(p), beside = s.executor.collectivesBeside(p);
    s.console.line("program " + program.name() + ": " + order.text() + ", " + std::to_string(collectives) +
                   " collectives " + (messages < collectives ? "in " + std::to_string(messages) + " messages " : "") +
                   "that send " + bytesText(sent) + " per rank" +
                   (plan.stages() > 1
                        ? ", " + std::to_string(sends) + " sends of " + bytesText(sentToStages) + " to other stages"
                        : "") +
                   (staged ? ", " + std::to_string(staged) + " through plain copies" : "") +
                   (beside ? ", " + std::to_string(beside) + " beside kernels" : ""));
  }
  return Status();
}

} // namespace

/// What follows when the executor is there.
static Status runSession(Session &session) {
  const RunOptions &options = session.options;
  std::optional<Monitor> monitor;
  if (options.stepTimeout > 0)
    monitor.emplace(session.executor, session.world, session.log, options.stepTimeout);
  std::optional<FolderLock> lock;
  if (session.leader() && !options.checkpointDir.empty()) { // taken before the folder is read
    Result<FolderLock> taken =
        FolderLock::take(options.checkpointDir, options.attempt > 0 ? kLockPatienceOfRestart : kLockPatience);
    if (!taken)
      return session.lasting(taken.status());
    lock = std::move(*taken);
  }
  TESSERA_RETURN_IF_ERROR(session.lasting(loadInitialWeights(session, session.executor)));
  TESSERA_RETURN_IF_ERROR(introduce(session));
  if (int start = findProgram(session.executor.plan(), "start"); start >= 0)
    TESSERA_RETURN_IF_ERROR(session.executor.run(start).context("program start"));
  if (options.profile)
    session.executor.measure();
  switch (options.mode) {
  case RunMode::Train:
    TESSERA_RETURN_IF_ERROR(train(session));
    break;
  case RunMode::Evaluate:
    TESSERA_RETURN_IF_ERROR(evaluate(session, session.firstStep()));
    break;
  case RunMode::Infer:
    TESSERA_RETURN_IF_ERROR(infer(session));
    break;
  case RunMode::Verify:
    TESSERA_RETURN_IF_ERROR(verify(session));
    break;
  }
  if (options.profile)
    TESSERA_RETURN_IF_ERROR(showProfile(session));
  if (const ProgramRunner *programs = session.executor.capabilities().programs; programs && session.leader())
    if (const std::string notice = programs->notice(); !notice.empty())
      session.console.line("note: " + notice);
  // No rank leaves, and frees its memory, while another may still read from it.
  return session.executor.everyone().barrier();
}

static Status runLogged(const PlanDirectory &plan, const RunOptions &options, World &world, Console &console,
                        RunResult &result, RankLog &log) {
  PlatformOptions where;
  where.backend = options.backend;
  where.localRank = options.localRank < 0 ? world.rank() : options.localRank;
  where.localRanks = options.localRanks == 0 ? world.size() : options.localRanks;
  where.shareDevices = options.shareDevices;
  Result<Platform> platform = Platform::open(where, world);
  if (!platform)
    return platform.status();
  Result<std::unique_ptr<Executor>> executor = Executor::create(
      plan.ranks[size_t(world.rank())], *platform->backend, world, loadOptions(options), platform->deviceWorld.get());
  if (!executor)
    return executor.status();
  Session session{plan, options, world, console, result, **executor, *platform, log};
  const Status status = runSession(session);
  if (!status && platform->deviceWorld)
    platform->deviceWorld->abandon(status.message());
  return status;
}

Status runPlan(const PlanDirectory &plan, const RunOptions &options, World &world, Console &console,
               RunResult &result) {
  RankLog log;
  if (!options.logDir.empty())
    TESSERA_RETURN_IF_ERROR(log.open(options.logDir, world.rank(), options.attempt > 0));
  Status status = runLogged(plan, options, world, console, result, log);
  log.line(status ? "ended" : "failed: " + status.message());
  return status ? log.status() : status;
}

} // namespace tessera::rt
