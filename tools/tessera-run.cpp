//===- tessera-run.cpp - runs a plan --------------------------------------------------------------===//
//
//   tessera-run plan/ --data cifar10:DIR --epochs 10            # ranks are threads of this process
//   mpirun -n 4 tessera-run plan/ --data synthetic --steps 100  # ranks are processes
//   tessera-run plan/ --processes --restarts 3 --checkpoint-dir run ...   # the same without MPI, and watched over
//   tessera-run plan/ --check                                             # what a run needs, and what is wrong
//
// Parses the command line, starts the ranks, turns a failure into one line and an exit code: 1 for a
// failure, 2 for a wrong command line, 3 where --check-numerics stops, 130 or 143 after an interrupt.
//
//===------------------------------------------------------------------------------------------===//
#include "runtime/backend/cpu/CpuBackend.h"
#include "runtime/check/Check.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/launch/Elastic.h"
#include "runtime/launch/LaunchContext.h"
#include "runtime/launch/Launcher.h"
#include "runtime/launch/Supervisor.h"
#include "runtime/session/Session.h"
#include "runtime/support/CommandFiles.h"
#include "runtime/support/Printable.h"
#include "runtime/support/Threads.h"
#include "runtime/support/Version.h"
#include "tools/BackendName.h"
#include "tools/NumberRange.h"
#include "tools/cli/CommandLine.h"
#include "tools/page/RunPage.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <system_error>

using namespace tessera::rt;

namespace {

/// CLI11's own validators print limits of forty digits.
CLI::Validator atLeast(int64_t least) {
  return CLI::Validator(
      [least](const std::string &text) {
        int64_t value = 0;
        const char *end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        return parsed.ec == std::errc() && parsed.ptr == end && value >= least
                   ? std::string()
                   : "expected a whole number from " + std::to_string(least) + " on, not '" + text + "'";
      },
      "");
}

/// Seconds: much longer than a step, a batch, or the writing of a checkpoint takes.
constexpr double kStepTimeout = 600;

struct CommandLine {
  std::string plan, device = "cpu", log, tensorboard, every, trace, numerics, html;
  bool eval = false, infer = false, verify = false, check = false, json = false, quiet = false, noGraphs = false;
  int ranks = 0, threads = 0, shuffle = -1, augment = -1;
  RunOptions run;
  LaunchOptions launch;
  int exitCode = 0; // the exit code of a supervisor, or of the ranks that it started

  CommandLine() { run.stepTimeout = -1; } // as the run is
};

void declare(CLI::App &app, CommandLine &c) {
  RunOptions &r = c.run;
  app.add_option("PLAN", c.plan, "Plan directory, as tessera-compile writes it")->required();
  app.add_option("--data", r.data,
                 "Where batches come from: npy:IN.npy[,IN2.npy...][,TARGET.npy] (model inputs in "
                 "order, then the target; or by name, npy:NAME=IN.npy,...,target=TARGET.npy), cifar10:DIR, "
                 "imagefolder:DIR, tokens:FILE, "
                 "synthetic[:classes=10,...]")
      ->type_name("SOURCE");

  auto *mode = app.add_option_group("Modes", "Training is the default");
  mode->add_flag("--eval", c.eval, "Evaluate: loss and accuracy over the evaluation data");
  mode->add_flag(
      "--infer", c.infer,
      "Write the model's outputs as .npy files (needs --output); tell the latency of a batch and the throughput");
  mode->add_flag("--verify", c.verify,
                 "Run the unpartitioned program on the reference backend beside the plan and "
                 "compare losses, outputs and updated parameters");
  mode->add_flag("--check", c.check,
                 "Run nothing; tell whether hosts and ranks reach each other, how fast, and what they have: memory, "
                 "disk for --checkpoint-dir, devices, clocks, versions; exit code 1 if something is wrong");
  mode->require_option(0, 1);

  auto *steps =
      app.add_option("--steps", r.steps, "Batches to run; in training, with those of a resumed run")->check(atLeast(1));
  app.add_option("--epochs", r.epochs, "Passes over the data (default 1)")->check(atLeast(1))->excludes(steps);
  app.add_option("--seed,--shuffle-seed", r.seed, "Of shuffling and augmentation (default 0, or the resumed run's)")
      ->check(tessera::notNegative());
  app.add_option("--shuffle", c.shuffle, "1 or 0: shuffle the data or not")->check(CLI::Range(0, 1));
  app.add_option("--augment", c.augment, "1 or 0: augment the data or not")->check(CLI::Range(0, 1));
  app.add_flag("--eval-each-epoch", r.evalEachEpoch, "Evaluate after every epoch of training and at its end");
  app.add_option("--eval-data", r.evalData, "Data for that (default: --data, evaluation split)")->type_name("SOURCE");
  app.add_option("--output", r.output, "Directory for the outputs of --infer")->type_name("DIR");
  app.add_option("--tolerance", r.tolerance,
                 "Of --verify: the relative difference that passes in any case. Otherwise 16 times what "
                 "rounding alone does to the unpartitioned program may be there; with --f64 losses get "
                 "the tolerance, tensors ten times as much (default 1e-6, with --f64 1e-10)")
      ->check(CLI::Range(1e-15, 1e6));

  app.add_option("--weights", r.weights, "Parameters from this safetensors file or checkpoint")->type_name("FILE|DIR");
  app.add_option("--weights-map", r.weightsMap, "JSON file with the names that --weights has for the plan's tensors")
      ->type_name("FILE");
  app.add_option("--save-weights", r.saveWeights, "Write the parameters after training to this safetensors file")
      ->type_name("FILE");
  app.add_option("--checkpoint-dir", r.checkpointDir, "Write checkpoints DIR/step-N in the background, and at the end")
      ->type_name("DIR");
  app.add_option("--checkpoint-every", c.every,
                 "How often: so many steps (100), or a time (30s, 10min, 2h) (default: each epoch)")
      ->type_name("N|TIME");
  app.add_option("--keep", r.keep, "Keep the last so many checkpoints (default 3; 0: all)")->check(atLeast(0));
  app.add_flag("--integrated", r.integrated,
               "Checkpoints of whole tensors, which other programs read, instead of each rank's part");
  app.add_option("--resume", r.resumeDir, "Continue from a checkpoint, or from the latest in this directory")
      ->type_name("DIR");

  LaunchOptions &l = c.launch;
  auto *launch =
      app.add_option_group("Launching", "Ranks are threads of this process by default; under mpirun or srun, "
                                        "or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the "
                                        "environment, this process is one of them (docs/launching.md)");
  auto *processes = launch->add_flag("--processes,!--no-processes", l.processes,
                                     "Ranks are processes of this machine; or threads, also where each has a device");
  launch
      ->add_option("--rank-table", l.rankTable,
                   "JSON file that says which ranks run on which servers; starts those of this "
                   "machine, or is the one "
                   "that RANK_ID says")
      ->type_name("FILE")
      ->excludes(processes);
  launch
      ->add_option("--rendezvous-timeout", l.rendezvousTimeout,
                   "Seconds that processes wait for each other at the start (default 120)")
      ->check(tessera::between(0.1, 1e6));
  launch
      ->add_option("--peer-timeout", l.peerTimeout,
                   "Seconds of silence after which a process counts as lost (default 10)")
      ->check(tessera::between(0.1, 1e6));
  launch
      ->add_option("--restarts", l.restarts,
                   "Start again from the last checkpoint after a failure, so many times (needs "
                   "--checkpoint-dir)")
      ->check(atLeast(0));
  launch->add_flag("--elastic", l.elastic,
                   "With --restarts: ranks that are killed or stopped are not started again; the "
                   "model is compiled for those that are left (with --processes or --rank-table). Under "
                   "torchrun, mpirun or srun, without --restarts: the model is compiled for the ranks that were "
                   "started, and the run goes on from the last checkpoint in --checkpoint-dir");
  app.add_option("--step-timeout", r.stepTimeout,
                 "Seconds without any progress after which every rank says where it stands and the "
                 "run ends (default 600 in training on several ranks; 0: never)")
      ->check(tessera::between(0.1, 1e6) | CLI::IsMember({"0"}));
  app.add_option("--log-dir", r.logDir, "One text file per rank: DIR/rank-N.log")->type_name("DIR");
  app.add_option("--ranks", c.ranks, "Expected number of ranks: an error if the plan has others")->check(atLeast(1));
  app.add_option("--threads", c.threads, "Kernel threads per rank (default: cores / ranks on this machine)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--device", c.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--share-devices", r.shareDevices,
               "With cuda: let ranks share a device; collectives go through host memory (slow)");
  app.add_flag("--tf32", r.tf32, "With cuda: matrix products and convolutions may round their operands to TF32");
  app.add_flag("--tiled-attention", r.tiledAttention,
               "With cuda: compute attention by generated kernels, which round less than cuDNN's and are slower");
  app.add_flag("--no-graphs", c.noGraphs, "With cuda: launch step by step, record no graphs");
  app.add_option("--backend", r.backend, "cpu, cuda, reference or null (default: as --device says)")
      ->check(tessera::knownBackend());
  app.add_flag("--f64", r.widen, "Compute in double precision what the plan has in single");
  app.add_option("--log", c.log, "One JSON object per step to this file")->type_name("FILE");
  app.add_option("--tensorboard", c.tensorboard, "Event files for TensorBoard in this directory: what --log has")
      ->type_name("DIR");
  app.add_option("--check-numerics", c.numerics,
                 "When loss, gradients or updates of a training step are NaN or infinite: stop, "
                 "skip its update on all ranks, or rollback to the last checkpoint and go on with "
                 "the next batch; says which operator made the first such number")
      ->check(CLI::IsMember({"stop", "skip", "rollback"}));
  auto *trace = app.add_option("--trace", c.trace,
                               "Write what all ranks do in some training steps, steps=FIRST:LAST or steps=N, "
                               "for https://ui.perfetto.dev or chrome://tracing")
                    ->type_name("steps=N[:M]");
  app.add_option("--trace-file", r.traceFile, "The file of --trace (default trace.json)")
      ->type_name("FILE")
      ->needs(trace);
  app.add_option("--html", c.html,
                 "Write a page to look at: the plan, and what this training measured beside what was predicted; one "
                 "file, as of tessera-dump --html. Traces the third step unless --trace names others")
      ->type_name("FILE");
  app.add_flag("--profile", r.profile,
               "Show which steps took the time, how far each kind of kernel is from what this machine can do, and the "
               "three largest losses");
  auto *quiet = app.add_flag("--quiet", c.quiet, "Print errors only");
  app.add_flag("--json", c.json, "With --check or --infer: print one JSON object instead of text")->excludes(quiet);
}

const char *environment(const char *name) { return std::getenv(name); }

/// "100", "30s", "10min", "2h".
Status parseEvery(const std::string &text, RunOptions &r) {
  size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  const double seconds = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  int64_t count = 0;
  auto parsed = std::from_chars(text.data(), text.data() + digits, count);
  if (parsed.ec != std::errc() || count < 1 || (seconds == 0 && !unit.empty()))
    return Status::error("--checkpoint-every " + text + ": give a number of steps (100) or a time (30s, 10min, 2h)");
  if (unit.empty())
    r.checkpointEvery = count;
  else
    r.checkpointSeconds = double(count) * seconds;
  return Status();
}

/// Checks options that depend on each other, which the parser cannot do.
Status complete(CommandLine &c, const CLI::App &app) {
  RunOptions &r = c.run;
  r.mode = c.eval ? RunMode::Evaluate : c.infer ? RunMode::Infer : c.verify ? RunMode::Verify : RunMode::Train;
  if (c.infer && r.output.empty())
    return Status::error("--infer needs --output DIR");
  if (c.check && (c.launch.restarts > 0 || c.launch.elastic || !(c.html + c.trace).empty()))
    return Status::error("--check runs nothing: --restarts, --elastic, --html and --trace have no meaning with it");
  if (c.json && !c.check && !c.infer)
    return Status::error("--json is for --check and --infer; --log writes what the other modes find as JSON");
  if (r.data.empty() && !c.check)
    return Status::error("--data is required: npy:IN.npy,...,TARGET.npy, cifar10:DIR, imagefolder:DIR, "
                         "tokens:FILE or synthetic");
  if (!r.weightsMap.empty() && r.weights.empty())
    return Status::error("--weights-map needs --weights");
  if (!r.weights.empty() && !r.resumeDir.empty())
    return Status::error("--weights and --resume exclude each other");
  if (r.mode != RunMode::Train && !(r.checkpointDir + r.saveWeights).empty())
    return Status::error("--checkpoint-dir and --save-weights are for training");
  if (!c.every.empty())
    TESSERA_RETURN_IF_ERROR(parseEvery(c.every, r));
  if (r.checkpointDir.empty() && (!c.every.empty() || r.integrated || app.count("--keep") > 0))
    return Status::error("--checkpoint-every, --keep and --integrated need --checkpoint-dir DIR");
  if (app.count("--backend") == 0)
    r.backend = c.device;
  r.graphs = !c.noGraphs;
  if (!runsOnDevice(r.backend) && (r.shareDevices || r.tf32 || r.tiledAttention || !r.graphs))
    return Status::error("--share-devices, --tf32, --tiled-attention and --no-graphs are for --device cuda");
  if (app.count("--processes") == 0) // the parser makes "false" of a flag that is not given
    c.launch.processes.reset();
  c.launch.ownDevices = runsOnDevice(r.backend) && !r.shareDevices;
  if (c.launch.restarts > 0 && r.checkpointDir.empty())
    return Status::error("--restarts needs --checkpoint-dir DIR");
  if (c.launch.elastic && r.checkpointDir.empty())
    return Status::error("--elastic needs --checkpoint-dir DIR");
  if (c.launch.elastic && c.launch.restarts == 0 && !startedByLauncher(environment))
    return Status::error("--elastic needs --restarts N, or a launcher that starts the ranks again");
  if (!c.numerics.empty()) {
    if (r.mode != RunMode::Train)
      return Status::error("--check-numerics is for training");
    if (c.numerics == "rollback" && r.checkpointDir.empty())
      return Status::error("--check-numerics rollback needs --checkpoint-dir DIR");
    r.numerics = c.numerics == "stop"   ? NumericsPolicy::Stop
                 : c.numerics == "skip" ? NumericsPolicy::Skip
                                        : NumericsPolicy::Rollback;
  }
  if (!c.trace.empty()) {
    if (r.mode != RunMode::Train)
      return Status::error("--trace is for training");
    if (!c.trace.starts_with("steps="))
      return Status::error("--trace " + c.trace + ": write steps=FIRST:LAST or steps=N");
    Result<StepRange> range = parseStepRange(c.trace.substr(6));
    if (!range)
      return range.status().context("--trace");
    r.trace = *range;
    if (r.traceFile.empty())
      r.traceFile = "trace.json";
  }
  if (!c.html.empty() && r.mode != RunMode::Train)
    return Status::error("--html is for training; tessera-dump --html shows a plan");
  if (c.shuffle >= 0)
    r.shuffle = c.shuffle != 0;
  if (c.augment >= 0)
    r.augment = c.augment != 0;
  return Status();
}

/// The number in the first of these launchers' variables that is set, or `otherwise` if none is.
int fromLauncher(std::initializer_list<const char *> names, int otherwise) {
  for (const char *name : names)
    if (const char *value = std::getenv(name))
      return int(std::strtol(value, nullptr, 10));
  return otherwise;
}

/// Writes the error. An empty error has been written already where it arose. `rank` is this process's rank, or -1.
void complain(const Status &status, int rank = -1) {
  if (status.message().empty())
    return;
  const std::string prefix = rank < 0 ? "" : "[rank " + std::to_string(rank) + "] ";
  printError(prefix + "tessera-run: " + status.message());
}

/// Joins the job as this process's rank. Null where ranks are threads.
Result<std::unique_ptr<World>> joinJob(CommandLine &c, const LaunchContext &context, const PlanDirectory &plan) {
  const int ranks = int(plan.ranks.size());
  if (context.transport == Transport::Tcp) {
    c.run.localRank = context.localRank;
    c.run.localRanks = context.localRanks;
    TcpOptions options = context.tcp;
    options.plan = plan.ranks[0].plan_id();
    return createTcpWorld(options);
  }
  if (context.transport == Transport::Threads)
    return std::unique_ptr<World>();
  Result<std::unique_ptr<World>> world = createMpiWorld(c.launch.peerTimeout);
  if (!world)
    return world.status();
  if ((*world)->size() != ranks) {
    // All processes see the same error, so one message is enough. It must be written before the first process ends,
    // since mpirun then stops the others.
    if ((*world)->rank() == 0)
      complain(Status::error(c.plan + ": is a plan for " + std::to_string(ranks) + " ranks, but MPI started " +
                             std::to_string((*world)->size()) + " processes"));
    return Status::error("");
  }
  // Under srun the local rank is not in MPI's variables but in Slurm's. Under mpirun Slurm's variables describe
  // mpirun's daemon.
  c.run.localRanks = fromLauncher({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"},
                                  context.localRanks > 0 ? context.localRanks : ranks);
  c.run.localRank = fromLauncher({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}, context.localRank);
  return world;
}

/// Checks that no output replaces an input, another output, or what is no regular file.
Status checkFiles(const CommandLine &c, const std::string &plan) {
  const RunOptions &r = c.run;
  CommandFiles files;
  for (const auto &read : {planFiles(plan),
                           dataPaths(r.data),
                           dataPaths(r.evalData),
                           checkpointFiles(r.resumeDir),
                           checkpointFiles(r.weights),
                           {r.weights, r.weightsMap, c.launch.rankTable}})
    for (const std::string &path : read)
      if (std::error_code error; path != r.weights || !std::filesystem::is_directory(path, error))
        files.reads(path);
  files.streams("--log", c.log);
  files.writes("--save-weights", r.saveWeights);
  files.writes("--trace-file", r.traceFile);
  files.writes("--html", c.html);
  return files.check();
}

/// Checks what a run needs; `mpi`: by which it runs. Rank 0 tells it, and its error is the first of what is wrong.
Status check(const CommandLine &c, const PlanDirectory &plan, bool mpi, World &world, Console &console) {
  CheckOptions options;
  options.checkpointDir = c.run.checkpointDir;
  options.devices = runsOnDevice(c.run.backend);
  options.shareDevices = c.run.shareDevices;
  options.threads = c.run.transport == "threads";
  options.localRank = c.run.localRank >= 0 ? c.run.localRank : world.rank();
  if (c.run.backend == "cpu")
    options.libraries = cpuLibraries();
  if (mpi)
    options.libraries += (options.libraries.empty() ? "" : ", ") + mpiLibrary();
  Result<CheckReport> report = checkRanks(plan, options, world);
  if (!report)
    return report.status();
  if (world.rank() != 0)
    return Status();
  if (c.json) {
    std::fputs(checkJson(*report).c_str(), stdout);
    std::fflush(stdout);
  } else {
    std::istringstream text(checkText(*report));
    for (std::string line; std::getline(text, line);)
      console.line(line);
  }
  return checkFault(*report).context("--check");
}

Status run(CommandLine &c, char **argv, RunResult &result) {
  // An elastic supervisor may have compiled another plan for the ranks that are left.
  const char *recompiled = std::getenv("TESSERA_ATTEMPT") ? std::getenv("TESSERA_PLAN") : nullptr;
  Result<PlanDirectory> plan = readPlanDirectory(recompiled ? recompiled : c.plan);
  if (!plan)
    return plan.status();
  int ranks = int(plan->ranks.size());
  if (c.ranks != 0 && c.ranks != ranks && !recompiled)
    return Status::error(c.plan + ": is a plan for " + std::to_string(ranks) + " ranks, not " +
                         std::to_string(c.ranks) + "; compile the model for another mesh");
  Result<LaunchContext> context = decideLaunch(c.launch, ranks, environment);
  if (!context)
    return context.status().context(c.plan);
  if (context->elastic) {
    Result<Elastic> elastic = Elastic::open(c.plan, c.run.checkpointDir);
    if (!elastic)
      return elastic.status().context("--elastic");
    if (context->ranks != ranks) {
      Result<std::string> fitting = elastic->fitting(context->ranks);
      if (!fitting)
        return fitting.status().context("--elastic");
      if (plan = readPlanDirectory(*fitting); !plan)
        return plan.status();
      ranks = int(plan->ranks.size());
    }
    if (!listCheckpoints(c.run.checkpointDir).empty())
      c.run.resumeDir = c.run.checkpointDir;
  }
  if (!context->children.empty() || context->transport == Transport::Threads)
    TESSERA_RETURN_IF_ERROR(checkFiles(c, plan->path)); // where ranks are processes, rank 0 checks below
  if (!context->children.empty()) {
    SupervisorOptions options{*context, argv, c.launch.restarts, c.launch.peerTimeout + 20, {}, c.run.checkpointDir};
    options.lastCheckpoint = [&c] {
      const std::vector<int64_t> steps = listCheckpoints(c.run.checkpointDir);
      return steps.empty() ? -1 : steps.back();
    };
    if (c.launch.elastic) {
      Result<Elastic> elastic = Elastic::open(c.plan, c.run.checkpointDir);
      if (!elastic)
        return elastic.status().context("--elastic");
      options.elastic = std::move(*elastic);
    }
    c.exitCode = supervise(std::move(options));
    return Status();
  }
  const int own = context->transport == Transport::Tcp ? context->tcp.rank : -1;
  Result<std::unique_ptr<World>> world = joinJob(c, *context, *plan);
  if (!world) {
    // Rank 0 only waits for the others: if some do not come, rank 0 itself is not at fault.
    if (context->supervised && own == 0)
      c.exitCode = kExitOther;
    complain(world.status(), own);
    return Status::error("");
  }
  if (c.run.stepTimeout < 0)
    c.run.stepTimeout = ranks > 1 && c.run.mode == RunMode::Train ? kStepTimeout : 0;
  catchInterrupts(); // only from here on, since ranks that wait for each other must be interruptible
  const bool process = *world != nullptr;
  if (c.run.threads = c.threads; c.threads == 0)
    c.run.threads = threadsPerRank(c.run.localRanks > 0 ? c.run.localRanks : ranks, context->localCores);
  c.run.program = "tessera-run " TESSERA_VERSION;
  c.run.transport = !process                               ? "threads"
                    : context->transport == Transport::Mpi ? "processes over MPI"
                                                           : "processes over TCP";
  if (c.run.attempt = context->attempt; c.run.attempt > 0 && !listCheckpoints(c.run.checkpointDir).empty())
    c.run.resumeDir = c.run.checkpointDir;
  const int rank = process ? (*world)->rank() : -1;
  // Under mpirun a process sees a terminal even if mpirun's output goes to a file.
  Console console(rank <= 0 && !c.quiet && !c.json ? stdout : nullptr, /*plain=*/process);
  tessera::RunPage page(c.html, {c.run.traceFile, c.log});
  c.run.traceFile = page.trace();
  auto body = [&](World &world) -> Status {
    if (c.check) {
      Status status = check(c, *plan, context->transport == Transport::Mpi, world, console);
      if (!status)
        tellSupervisor(status.message());
      return status;
    }
    // This is checked after the ranks have started, since a failure must stop the others too.
    if (process && world.rank() == 0)
      TESSERA_RETURN_IF_ERROR(checkFiles(c, plan->path));
    if (world.rank() == 0)
      TESSERA_RETURN_IF_ERROR(page.begin(plan->path));
    if (world.rank() == 0 && !page.log().empty())
      TESSERA_RETURN_IF_ERROR(console.openLog(page.log(), /*append=*/!c.run.resumeDir.empty() || c.run.attempt > 0));
    if (world.rank() == 0 && !c.tensorboard.empty())
      TESSERA_RETURN_IF_ERROR(console.openEvents(c.tensorboard));
    Status status = runPlan(*plan, c.run, world, console, result);
    if (status && world.rank() == 0)
      status = page.write(plan->path);
    if (status && world.rank() == 0 && c.json && result.latency) {
      std::fputs(latencyJson(*result.latency).c_str(), stdout);
      std::fflush(stdout);
    }
    if (!status && context->supervised && !world.aborted().empty())
      c.exitCode = kExitOther; // tells the supervisor that this rank is not the one at fault
    else if (!status)
      tellSupervisor(status.message());
    return status;
  };
  std::vector<std::unique_ptr<World>> worlds;
  if (process)
    worlds.push_back(std::move(*world));
  Status status = process ? runRanks(std::move(worlds), body) : runRanks(ranks, body);
  if (status || !process)
    return status;
  complain(status, rank);
  return Status::error("");
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs a plan: trains, evaluates or infers, on this machine's ranks or on several machines",
               "tessera-run");
  CommandLine command;
  command.run.backend = "cpu";
  declare(app, command);
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  RunResult result;
  Status status = complete(command, app);
  if (!status) {
    complain(status);
    return kExitUsage;
  }
  try {
    status = run(command, argv, result);
  } catch (const std::system_error &e) { // a thread that was refused, outside of the ranks' own work
    status = systemFailure(e);
  }
  if (!status) {
    complain(status);
    // Where ranks are threads, one of them has failed by itself.
    const bool lasting = result.lasting && std::getenv("TESSERA_ATTEMPT");
    return result.notFinite ? kExitNumerics : lasting ? kExitLasting : command.exitCode != 0 ? command.exitCode : 1;
  }
  if (command.exitCode != 0)
    return command.exitCode;
  if (result.interrupted != 0)
    return exitCodeOf(result.interrupted);
  return result.verified ? 0 : 1;
}
