// Training: the loop over steps.
#include "runtime/executor/GlobalTensors.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Recovery.h"
#include "runtime/support/File.h"
#include "runtime/telemetry/RankTimes.h"
#include "runtime/telemetry/StageTimes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// The step of a run that is traced if no other is asked for. The first steps are slower than those that follow.
constexpr int64_t kTracedStep = 3;

/// The facts that ranks exchange and agree on after a step.
struct Agreement {
  int interrupted = 0; // by this signal
  bool checkpointDue = false, checkpointReady = true, bad = false;
  // By rank: that it worked by itself, that it was in messages to and from other stages, and of the whole step. Empty:
  // not every rank knows.
  std::vector<double> own, betweenStages, whole;

  static Result<Agreement> on(Communicator &everyone, const RunCheckpoints &checkpoints, bool bad,
                              std::optional<double> own, std::optional<double> betweenStages, double whole) {
    constexpr size_t fields = 7;
    const double mine[fields] = {double(rt::interrupted()),
                                 double(checkpoints.due()),
                                 double(!checkpoints.ready()),
                                 double(bad),
                                 own.value_or(NAN),
                                 betweenStages.value_or(NAN),
                                 whole};
    std::vector<double> all(fields * size_t(everyone.size()));
    TESSERA_RETURN_IF_ERROR(everyone.allGather(mine, all.data(), 1, fields, plan::F64));
    Agreement agreed;
    for (size_t r = 0; r < all.size(); r += fields) {
      agreed.interrupted = std::max(agreed.interrupted, int(all[r]));
      agreed.checkpointDue |= all[r + 1] != 0;
      agreed.checkpointReady &= all[r + 2] == 0;
      agreed.bad |= all[r + 3] != 0;
      agreed.own.push_back(all[r + 4]);
      agreed.betweenStages.push_back(all[r + 5]);
      agreed.whole.push_back(all[r + 6]);
    }
    for (std::vector<double> *known : {&agreed.own, &agreed.betweenStages})
      if (!std::ranges::all_of(*known, [](double seconds) { return std::isfinite(seconds); }))
        known->clear();
    return agreed;
  }
};

/// The machine of every rank.
Result<std::vector<std::string>> hostsOf(Communicator &everyone) {
  constexpr size_t bytes = 64;
  char mine[bytes] = "";
  gethostname(mine, bytes - 1);
  std::vector<char> all(bytes * size_t(everyone.size()));
  TESSERA_RETURN_IF_ERROR(everyone.allGather(mine, all.data(), 1, bytes, plan::U8));
  std::vector<std::string> hosts;
  for (size_t r = 0; r < all.size(); r += bytes)
    hosts.emplace_back(all.data() + r, strnlen(all.data() + r, bytes));
  return hosts;
}

/// The scalars besides the loss that a program computes in a step, for the log. They are rank 0's.
class StepScalars {
public:
  explicit StepScalars(Executor &executor) : executor_(executor) {
    for (plan::Role role : {plan::LEARNING_RATE, plan::GRADIENT_NORM})
      for (int binding : executor.bindings(role, "train"))
        add(binding, executor.plan().bindings(binding).name());
    for (int binding : executor.bindings(plan::STATE, ""))
      if (const std::string &name = executor.plan().bindings(binding).log_as(); !name.empty())
        add(binding, name);
  }
  Status appendTo(std::vector<std::pair<std::string, double>> &fields) {
    for (const auto &[binding, name] : found_) {
      Result<double> value = executor_.fetchScalar(binding);
      if (!value)
        return value.status();
      fields.push_back({name, *value});
    }
    return Status();
  }

private:
  void add(int binding, const std::string &name) { found_.push_back({binding, name}); }
  Executor &executor_;
  std::vector<std::pair<int, std::string>> found_;
};

/// What collectives take of a step that no kernel hides, as rank 0 measures it: waiting for ranks that come later is
/// part of it.
class Exposed {
public:
  Exposed(const Session &s, const std::optional<Prediction> &predicted)
      : told_(s.world.size() > 1), predicted_(predicted) {}

  /// Notes a step, and adds it to the log.
  void step(std::optional<double> seconds, std::vector<std::pair<std::string, double>> &fields) {
    if (!told_ || !seconds)
      return;
    seconds_.push_back(*seconds);
    fields.push_back({"exposed_seconds", *seconds});
  }
  /// Empty if nothing is known.
  std::string summary() {
    if (seconds_.empty())
      return "";
    std::nth_element(seconds_.begin(), seconds_.begin() + int64_t(seconds_.size() / 2), seconds_.end());
    std::string text = "exposed communication: median " + milliseconds(seconds_[seconds_.size() / 2]) + " a step";
    if (predicted_)
      text += ", predicted " + milliseconds(double(predicted_->exposed) / 1e9) + " of " +
              milliseconds(double(predicted_->end) / 1e9);
    return text;
  }

private:
  static std::string milliseconds(double seconds) { return numberText(seconds * 1e3, 4) + " ms"; }
  const bool told_;
  const std::optional<Prediction> &predicted_;
  std::vector<double> seconds_; // by step
};

/// How many steps a run has altogether, those of a checkpoint included.
int64_t lastStep(const Session &s, const DataSource &data, int64_t firstBatch) {
  if (s.options.steps > 0)
    return s.options.steps;
  int64_t batches = std::max<int64_t>(s.options.epochs, 1) * data.batchesPerEpoch();
  return s.firstStep() + std::max<int64_t>(0, batches - firstBatch);
}

void summarise(Session &s, const Progress &progress, int64_t steps, double firstLoss, const std::string &ranks) {
  uint64_t batch = s.executor.plan().global_batch();
  double median = progress.medianSeconds();
  s.console.line("trained " + std::to_string(steps) + " steps in " + durationText(progress.totalSeconds()) +
                 ": median " + numberText(median * 1e3, 4) + " ms a step, " +
                 numberText(double(batch) / std::max(median, 1e-9), 4) + " samples/s, loss " + numberText(firstLoss) +
                 " -> " + numberText(s.result.loss));
  if (!ranks.empty())
    s.console.line(ranks);
}

/// Checks that the requested trace can be made. A resumed run may be past its steps.
Status checkTrace(const Session &s, int64_t first, int64_t last) {
  const StepRange &range = s.options.trace;
  if (range.first == 0 || range.last <= first)
    return Status();
  if (range.first > last)
    return Status::error("--trace: there is no step " + std::to_string(range.first) + ", the run ends after step " +
                         std::to_string(last));
  return s.leader() ? checkWritable(s.options.traceFile) : Status(); // fails before the steps, not after them
}

} // namespace

Status train(Session &s) {
  int program = findProgram(s.executor.plan(), "train");
  if (program < 0)
    return s.lasting(Status::error("the plan has no program 'train': compile with --train, or run with --infer"));
  const Stages stages = stagesOf(s.executor.plan());
  std::optional<Prediction> predicted; // of the first rank of a stage, since the others do the same
  if (stages.placeOf(s.executor.plan().rank()) == 0 &&
      (!s.options.traceFile.empty() || (s.leader() && s.world.size() > 1)))
    predicted = Prediction::read(s.plan.path, s.executor.plan(), program);
  std::optional<Trace> trace; // outlives the feed, whose thread tells it of batches
  DataOptions dataOptions = s.dataOptions(true);
  if (!s.options.traceFile.empty()) {
    trace.emplace(s.executor, s.options.trace, s.options.traceFile, predicted);
    dataOptions.produced = trace->producer();
  }
  auto enter = [&](const char *what) {
    s.executor.enter(what);
    if (trace)
      trace->phase(what);
  };
  Result<Feed> feed = Feed::open(s.executor, s.tensors, "train", s.options.data, dataOptions);
  if (!feed)
    return s.lasting(feed.status());
  int64_t perEpoch = feed->source().batchesPerEpoch();
  const int64_t first = s.firstStep();
  Result<int64_t> firstBatch = s.firstBatch(feed->source());
  if (!firstBatch)
    return firstBatch.status();
  Place place{first, *firstBatch - first, lastStep(s, feed->source(), *firstBatch)};
  TESSERA_RETURN_IF_ERROR(feed->source().seek(place.batches()));
  RunCheckpoints checkpoints(s, feed->source());
  TESSERA_RETURN_IF_ERROR(s.lasting(checkpoints.check()));
  TESSERA_RETURN_IF_ERROR(s.lasting(checkTrace(s, first, place.last)));
  if (const int64_t step = std::min(first + kTracedStep, place.last); trace && s.options.trace.first == 0)
    trace->trace({step, step});
  if (s.leader() && !s.options.saveWeights.empty())
    TESSERA_RETURN_IF_ERROR(s.lasting(checkWritable(s.options.saveWeights)));
  Recovery recovery(s, checkpoints);
  StepScalars scalars(s.executor);
  uint64_t batch = s.executor.plan().global_batch();
  if (s.leader()) {
    s.console.line("data: " + feed->source().describe());
    if (first > 0)
      s.console.line("resumed after step " + std::to_string(first));
  }
  if (s.options.numerics == NumericsPolicy::Rollback)
    TESSERA_RETURN_IF_ERROR(checkpoints.begin(first, place.batches()));
  Progress progress(s.console, first, place.last, batch);
  std::optional<RankTimes> times; // where ranks wait for each other
  if (s.world.size() > 1) {
    s.executor.measureWaits(program);
    Result<std::vector<std::string>> hosts = hostsOf(s.executor.everyone());
    if (!hosts)
      return hosts.status();
    times.emplace(*hosts, stages);
  }
  std::optional<StageTimes> stageTimes;
  if (s.leader() && stages.count() > 1)
    stageTimes.emplace(s.executor.plan(), program, Prediction::readStages(s.plan.path, s.plan.ranks, program));
  auto warn = [&s](const std::string &what) {
    if (what.empty())
      return;
    s.log.line("WARNING: " + what);
    if (s.leader())
      s.console.line("WARNING: " + what);
  };
  Exposed exposed(s, predicted);
  double firstLoss = 0;
  int64_t evaluated = -1;
  int stopped = 0; // by this signal
  while (place.step < place.last && !stopped) {
    const double begin = now();
    const std::optional<double> betweenBefore = s.executor.secondsBetweenStages(program);
    if (trace)
      trace->begin(place.step + 1);
    enter("reading a batch");
    TESSERA_RETURN_IF_ERROR(feed->next());
    TESSERA_RETURN_IF_ERROR(s.executor.feedStep("train", place.step));
    TESSERA_RETURN_IF_ERROR(recovery.begin(place));
    enter("running the program");
    TESSERA_RETURN_IF_ERROR(s.executor.run(program, [&] {
      if (place.step + 1 < place.last)
        feed->ahead();
    }));
    Result<double> loss = s.executor.fetchScalar(plan::LOSS, "train");
    if (!loss)
      return loss.status();
    Result<bool> bad = recovery.bad(*loss);
    if (!bad)
      return bad.status();
    enter("agreeing with the other ranks");
    std::optional<double> own, between, inCollectives;
    const std::optional<double> waited = s.executor.waitedSeconds();
    const double mine = now() - begin;
    if (waited)
      own = mine - *waited;
    if (betweenBefore)
      between = *s.executor.secondsBetweenStages(program) - *betweenBefore;
    if (waited && (between || stages.count() < 2))
      inCollectives = std::max(0.0, *waited - between.value_or(0));
    Result<Agreement> agreed = Agreement::on(s.executor.everyone(), checkpoints, *bad, own, between, mine);
    if (!agreed)
      return agreed.status();
    const bool timed = times && !agreed->own.empty();
    if (timed) {
      times->step(agreed->own, now() - begin);
      warn(times->warning());
      if (stageTimes) {
        stageTimes->step(agreed->own, agreed->betweenStages, agreed->whole);
        warn(stageTimes->warning());
      }
    }
    stopped = agreed->interrupted;
    if (agreed->bad) {
      enter("looking for what is not finite");
      TESSERA_RETURN_IF_ERROR(recovery.handle(*feed, *loss, place));
    } else {
      ++place.step;
      recovery.good();
    }
    if (s.leader() && !agreed->bad) {
      double seconds = now() - begin;
      progress.step(place.step, *loss, seconds);
      if (s.result.steps == 0)
        firstLoss = *loss;
      s.result.loss = *loss;
      s.result.steps = place.step - first;
      const int64_t epoch = (place.batches() - 1) / perEpoch;
      std::vector<std::pair<std::string, double>> fields = {
          {"step", double(place.step)},
          {"epoch", double(epoch)},
          {"loss", *loss},
          {"seconds", seconds},
          {"samples_per_second", double(batch) / std::max(seconds, 1e-9)},
          {"memory_bytes", double(s.executor.loaded().arenaBytes() + s.executor.loaded().scratchBytes())}};
      exposed.step(inCollectives, fields);
      if (stageTimes && !agreed->betweenStages.empty())
        fields.push_back({"bubble", StageTimes::bubble(agreed->betweenStages, agreed->whole)});
      if (s.console.logs())
        TESSERA_RETURN_IF_ERROR(scalars.appendTo(fields));
      if (timed)
        fields.push_back({"skew", times->skew(agreed->own)});
      TESSERA_RETURN_IF_ERROR(s.console.log(fields, "rank_seconds", timed ? agreed->own : std::vector<double>()));
    }
    enter("at a checkpoint");
    TESSERA_RETURN_IF_ERROR(
        checkpoints.step(place.step, place.batches(), agreed->checkpointDue, agreed->checkpointReady));
    if (trace)
      TESSERA_RETURN_IF_ERROR(trace->end());
    const bool epochEnds = place.batches() % perEpoch == 0;
    if (s.options.evalEachEpoch && epochEnds && !stopped) {
      TESSERA_RETURN_IF_ERROR(evaluate(s, place.step));
      evaluated = place.step;
    }
  }
  if (trace)
    TESSERA_RETURN_IF_ERROR(trace->finish());
  // Set on every rank. In a rank that is a process, the exit code tells the supervisor that training has not ended.
  if (stopped)
    std::atomic_ref(s.result.interrupted).store(stopped);
  if (s.leader()) {
    if (stopped)
      s.console.line("stopped after step " + std::to_string(place.step));
    summarise(s, progress, place.step - first, firstLoss, times ? times->summary() : "");
    for (const std::string &what : stageTimes ? stageTimes->summary() : std::vector<std::string>())
      s.console.line(what);
    if (std::string what = exposed.summary(); !what.empty())
      s.console.line(what);
    if (std::string what = recovery.summary(); !what.empty())
      s.console.line(what);
  }
  if (const std::string own = times ? times->summary(s.world.rank()) : ""; !own.empty())
    s.log.line(own);
  TESSERA_RETURN_IF_ERROR(checkpoints.finish(place.step, place.batches()));
  if (s.options.evalEachEpoch && evaluated != place.step && !stopped)
    TESSERA_RETURN_IF_ERROR(evaluate(s, place.step));
  if (!s.options.saveWeights.empty())
    TESSERA_RETURN_IF_ERROR(saveWeights(s.executor, s.plan.ranks, s.options.saveWeights));
  return Status();
}

} // namespace tessera::rt
