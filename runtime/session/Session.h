//===- Session.h - training, evaluating and inferring with a plan ---------------------------------===//
//
// The library behind tessera-run. Every rank makes one call, on any World, with the same options.
//
//   Result<PlanDirectory> plan = readPlanDirectory("plan");
//   RunOptions options;
//   options.data = "synthetic";
//   RunResult result;                                   // filled by rank 0
//   Status status = runRanks(ranks, [&](World &world) {
//     return runPlan(*plan, options, world, console, result);
//   });
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_SESSION_H
#define TESSERA_RUNTIME_SESSION_SESSION_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/data/DataSource.h"
#include "runtime/executor/Executor.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/session/Feed.h"
#include "runtime/session/Platform.h"
#include "runtime/telemetry/Latency.h"
#include "runtime/telemetry/Prediction.h"
#include "runtime/telemetry/Progress.h"
#include "runtime/telemetry/RankLog.h"
#include "runtime/telemetry/Trace.h"
#include "runtime/tensor/BoundTensors.h"

#include <optional>
#include <string>

namespace tessera::rt {

enum class RunMode { Train, Evaluate, Infer, Verify };

/// What a run does about a training step with numbers that are not finite (Recovery.h).
enum class NumericsPolicy { Ignore, Stop, Skip, Rollback };

struct RunOptions {
  RunMode mode = RunMode::Train;
  std::string data;           // a data source's specification (DataSource.h)
  std::string evalData;       // of the evaluations between epochs; empty: `data`
  bool evalEachEpoch = false; // also after the last step
  int64_t steps = 0;          // 0: as `epochs` says; training counts those of a resumed run too
  int64_t epochs = 0;         // 0: one (verification: three steps)
  // The seed and switches of shuffling and augmentation. Those that are not given are those of the resumed run, or the
  // defaults.
  std::optional<uint64_t> seed;
  std::optional<bool> shuffle, augment;
  std::string backend = "cpu";
  int localRank = -1;        // on this machine; -1: as in the world
  int localRanks = 0;        // 0: all of the world
  bool shareDevices = false; // several ranks on one device, collectives through the host
  bool tf32 = false;         // DeviceOptions
  bool tiledAttention = false;
  bool graphs = true;
  int threads = 1;           // per rank
  bool widen = false;        // F32 becomes F64
  bool profile = false;      // print where the time goes
  StepRange trace;           // training steps that are written to `traceFile`; none: the run's third step, or its last
  std::string traceFile;     // empty: nothing is traced
  std::string weights;       // instead of the plan's weight file
  std::string weightsMap;    // a file with the names that `weights` has for the plan's
  std::string checkpointDir; // checkpoints as the next three say, and at the end
  int64_t checkpointEvery = 0;    // every so many steps; 0: after each epoch,
  double checkpointSeconds = 0;   // or when so much time has passed
  int64_t keep = 3;               // of the checkpoints in the folder, the last ones; 0: all
  bool integrated = false;        // whole tensors instead of what each rank holds
  std::string resumeDir;          // parameters, states and position from a checkpoint
  std::string saveWeights;        // parameters at the end
  std::string output;             // Infer: directory for the model outputs
  std::string logDir;             // one file per rank
  double stepTimeout = 0;         // seconds without progress after which a rank counts as hanging; 0: never
  std::string program, transport; // for the logs: "tessera-run 0.1.0", "processes over TCP"
  int attempt = 0;                // how often this run was started again
  double tolerance = 0;           // Verify; 0: 1e-6, or 1e-10 widened
  NumericsPolicy numerics = NumericsPolicy::Ignore;
};

struct RunResult {
  int64_t steps = 0;              // run now
  double loss = 0;                // of the last training step, or the mean of an evaluation
  double accuracy = -1;           // of an evaluation, if the program counts
  int interrupted = 0;            // by this signal
  std::optional<Latency> latency; // of an inference that ended
  bool verified = true;
  bool notFinite = false; // a step had numbers that are not finite, and the run had to stop; set by every rank
  bool lasting = false;   // a failure before the first step that would repeat itself; set by any rank
};

/// Runs one rank. Rank 0 writes to `console` and `result`.
Status runPlan(const PlanDirectory &plan, const RunOptions &options, World &world, Console &console, RunResult &result);

//===------------------------------------------------------------------------------------------===//
// Parts, for the files of this folder
//===------------------------------------------------------------------------------------------===//

/// The objects that the parts share on one rank.
struct Session {
  const PlanDirectory &plan;
  const RunOptions &options;
  World &world;
  Console &console;
  RunResult &result;
  Executor &executor;
  const Platform &platform;
  RankLog &log;
  const BoundTensors tensors{plan.ranks}; // of all ranks
  std::optional<Manifest> resumed = {};   // the manifest of the checkpoint that the run starts from
  std::string checkpoint = {};            // the folder of that checkpoint

  bool leader() const { return world.rank() == 0; }
  /// Passes `status` on. If it is an error, notes that another start would fail alike (RunResult::lasting). For errors
  /// that depend neither on other ranks nor on chance.
  Status lasting(Status status) const;
  DataOptions dataOptions(bool train) const;
  /// The number of steps that were done before this run.
  int64_t firstStep() const { return resumed ? resumed->position.step : 0; }
  /// The batch that the run begins with, counted from the first of epoch 0.
  Result<int64_t> firstBatch(const DataSource &data) const;
};

/// Loads the parameters and states that a run starts from: those of a checkpoint, of a weight file, or of the plan.
/// `executor` runs the plan or its sequential program.
Status loadInitialWeights(Session &session, Executor &executor);

/// Called by all ranks. Loads parameters and states from a checkpoint of this run and returns its position.
Result<RunPosition> reload(Session &session, const std::string &checkpoint);

/// As a run's options want a plan loaded.
LoadOptions loadOptions(const RunOptions &options);

Status train(Session &session);
/// One pass over the evaluation data. `step` is for the log.
Status evaluate(Session &session, int64_t step);
Status infer(Session &session);
Status verify(Session &session);

/// Seconds since some moment.
double now();

} // namespace tessera::rt

#endif
