// train and evaluate.
#include "runtime/checkpoint/Folder.h"
#include "runtime/executor/Checkpointer.h"
#include "runtime/executor/GlobalTensors.h"
#include "runtime/executor/Launcher.h"
#include "runtime/executor/RankTimes.h"
#include "runtime/executor/Session.h"
#include "runtime/plan/PlanInfo.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// The checkpoints of a run: when one is due, and what it says of where the run is.
class Checkpoints {
public:
  Checkpoints(Session &s, const DataSource &data) : s_(s), data_(data) {
    const RunOptions &o = s.options;
    if (!o.checkpointDir.empty())
      writer_.emplace(s.executor, s.plan.ranks,
                      CheckpointOptions{o.checkpointDir, o.keep, o.integrated});
  }

  /// What is already in the folder must not lie ahead of this run: a later --resume would take it for
  /// this run's.
  Status check() const {
    if (!writer_ || !s_.leader())
      return Status();
    std::vector<int64_t> steps = listCheckpoints(s_.options.checkpointDir);
    if (steps.empty() || steps.back() <= s_.firstStep())
      return Status();
    return Status::error(checkpointPath(s_.options.checkpointDir, steps.back()) +
                         ": is of another run, or of a later step than this one begins with; go on "
                         "with --resume " +
                         s_.options.checkpointDir + ", or give another folder to --checkpoint-dir");
  }

  /// This rank's part of what is to be agreed on.
  bool due() const {
    return writer_ && s_.leader() && s_.options.checkpointSeconds > 0 &&
           now() - lastTime_ >= s_.options.checkpointSeconds;
  }
  bool ready() const { return !writer_ || writer_->ready(); }

  /// After a step: `batches` lie behind it since the first of epoch 0.
  Status step(int64_t step, int64_t batches, bool due, bool everyoneReady) {
    if (!writer_)
      return Status();
    if (everyoneReady)
      TESSERA_RETURN_IF_ERROR(writer_->advance());
    const RunOptions &o = s_.options;
    const bool each = o.checkpointEvery > 0     ? step % o.checkpointEvery == 0
                      : o.checkpointSeconds > 0 ? false
                                                : batches % data_.batchesPerEpoch() == 0;
    return each || due ? start(step, batches) : Status();
  }

  Status finish(int64_t step, int64_t batches) {
    if (!writer_)
      return Status();
    // A run that had nothing to do leaves the checkpoint that it began with.
    const bool there =
        step == s_.firstStep() && fileExists(checkpointPath(s_.options.checkpointDir, step));
    if (writer_->lastStep() != step && !there)
      TESSERA_RETURN_IF_ERROR(start(step, batches));
    return writer_->finish();
  }

private:
  Status start(int64_t step, int64_t batches) {
    lastTime_ = now();
    auto batch = static_cast<int64_t>(s_.executor.plan().global_batch());
    const DataOptions options = s_.dataOptions(true);
    return writer_->start(
        {step, batches / data_.batchesPerEpoch(), batches % data_.batchesPerEpoch() * batch, batch},
        {s_.options.data, options.seed, options.shuffle, options.augment});
  }

  Session &s_;
  const DataSource &data_;
  std::optional<Checkpointer> writer_;
  double lastTime_ = now();
};

/// What the ranks tell each other after a step, and agree on.
struct Agreement {
  bool interrupted = false, checkpointDue = false, checkpointReady = true;
  std::vector<double> seconds; // by rank: that it worked by itself

  static Result<Agreement> on(Communicator &everyone, const Checkpoints &checkpoints,
                              double seconds) {
    constexpr size_t fields = 4;
    const double mine[fields] = {double(rt::interrupted()), double(checkpoints.due()),
                                 double(!checkpoints.ready()), seconds};
    std::vector<double> all(fields * static_cast<size_t>(everyone.size()));
    TESSERA_RETURN_IF_ERROR(everyone.allGather(mine, all.data(), 1, fields, plan::F64));
    Agreement agreed;
    for (size_t r = 0; r < all.size(); r += fields) {
      agreed.interrupted |= all[r] != 0;
      agreed.checkpointDue |= all[r + 1] != 0;
      agreed.checkpointReady &= all[r + 2] == 0;
      agreed.seconds.push_back(all[r + 3]);
    }
    return agreed;
  }
};

/// The machine of every rank.
Result<std::vector<std::string>> hostsOf(Communicator &everyone) {
  constexpr size_t bytes = 64;
  char mine[bytes] = "";
  gethostname(mine, bytes - 1);
  std::vector<char> all(bytes * static_cast<size_t>(everyone.size()));
  TESSERA_RETURN_IF_ERROR(everyone.allGather(mine, all.data(), 1, bytes, plan::U8));
  std::vector<std::string> hosts;
  for (size_t r = 0; r < all.size(); r += bytes)
    hosts.emplace_back(all.data() + r, strnlen(all.data() + r, bytes));
  return hosts;
}

/// How many steps a run has altogether, those of a checkpoint included.
int64_t lastStep(const Session &s, const DataSource &data) {
  if (s.options.steps > 0)
    return s.options.steps;
  int64_t batches = std::max<int64_t>(s.options.epochs, 1) * data.batchesPerEpoch();
  return s.firstStep() + std::max<int64_t>(0, batches - s.firstBatch(data));
}

void summarise(Session &s, const Progress &progress, int64_t steps, double firstLoss,
               const std::string &ranks) {
  uint64_t batch = s.executor.plan().global_batch();
  double median = progress.medianSeconds();
  s.console.line("trained " + std::to_string(steps) + " steps in " +
                 durationText(progress.totalSeconds()) + ": median " + numberText(median * 1e3, 4) +
                 " ms a step, " +
                 numberText(static_cast<double>(batch) / std::max(median, 1e-9), 4) +
                 " images/s, loss " + numberText(firstLoss) + " -> " + numberText(s.result.loss));
  if (!ranks.empty())
    s.console.line(ranks);
}

} // namespace

Status train(Session &s) {
  int program = findProgram(s.executor.plan(), "train");
  if (program < 0)
    return Status::error(
        "the plan has no program 'train': compile with --train, or run with --infer");
  Result<Feed> feed = Feed::open(s.executor, "train", s.options.data, s.dataOptions(true));
  if (!feed)
    return feed.status();
  int64_t perEpoch = feed->source().batchesPerEpoch();
  const int64_t first = s.firstStep(), last = lastStep(s, feed->source());
  const int64_t ahead =
      s.firstBatch(feed->source()) - first; // of the batches, where they changed size
  TESSERA_RETURN_IF_ERROR(feed->source().seek(first + ahead));
  Checkpoints checkpoints(s, feed->source());
  TESSERA_RETURN_IF_ERROR(checkpoints.check());
  uint64_t batch = s.executor.plan().global_batch();
  if (s.leader()) {
    s.console.line("data: " + feed->source().describe());
    if (first > 0)
      s.console.line("resumed after step " + std::to_string(first));
  }
  Progress progress(s.console, first, last, batch);
  std::optional<RankTimes> times; // where ranks wait for each other, and where the host sees it
  if (s.world.size() > 1 && s.executor.collectiveSeconds(program)) {
    Result<std::vector<std::string>> hosts = hostsOf(s.executor.everyone());
    if (!hosts)
      return hosts.status();
    times.emplace(std::move(*hosts));
  }
  double firstLoss = 0;
  int64_t step = first, evaluated = -1;
  bool stopped = false;
  while (step < last && !stopped) {
    const double begin = now();
    const double waited = s.executor.collectiveSeconds(program).value_or(0);
    s.executor.enter("reading a batch");
    TESSERA_RETURN_IF_ERROR(feed->next());
    TESSERA_RETURN_IF_ERROR(s.executor.feedStep("train", step));
    TESSERA_RETURN_IF_ERROR(s.executor.run(program));
    Result<double> loss = s.executor.fetchScalar(plan::LOSS, "train");
    if (!loss)
      return loss.status();
    s.executor.enter("agreeing with the other ranks");
    const double own = now() - begin - (s.executor.collectiveSeconds(program).value_or(0) - waited);
    Result<Agreement> agreed = Agreement::on(s.executor.everyone(), checkpoints, own);
    if (!agreed)
      return agreed.status();
    if (times) {
      times->step(agreed->seconds, now() - begin);
      if (const std::string slow = times->warning(); !slow.empty()) {
        s.log.line("WARNING: " + slow);
        if (s.leader())
          s.console.line("WARNING: " + slow);
      }
    }
    stopped = agreed->interrupted;
    ++step;
    if (s.leader()) {
      double seconds = now() - begin;
      progress.step(step, *loss, seconds);
      if (step == first + 1)
        firstLoss = *loss;
      s.result.loss = *loss;
      s.result.steps = step - first;
      std::vector<std::pair<std::string, double>> fields = {
          {"step", static_cast<double>(step)},
          {"epoch", static_cast<double>((step - 1 + ahead) / perEpoch)},
          {"loss", *loss},
          {"seconds", seconds},
          {"images_per_second", static_cast<double>(batch) / std::max(seconds, 1e-9)},
          {"memory_bytes", static_cast<double>(s.executor.loaded().arenaBytes() +
                                               s.executor.loaded().scratchBytes())}};
      if (times)
        fields.push_back({"skew", RankTimes::skew(agreed->seconds)});
      TESSERA_RETURN_IF_ERROR(
          s.console.log(fields, "rank_seconds", times ? agreed->seconds : std::vector<double>()));
    }
    s.executor.enter("at a checkpoint");
    TESSERA_RETURN_IF_ERROR(
        checkpoints.step(step, step + ahead, agreed->checkpointDue, agreed->checkpointReady));
    const bool epochEnds = (step + ahead) % perEpoch == 0;
    if (s.options.evalEachEpoch && epochEnds && !stopped) {
      TESSERA_RETURN_IF_ERROR(evaluate(s, step));
      evaluated = step;
    }
  }
  // Every rank's: where it is a process, its exit code tells a supervisor that this was no end of the training.
  if (stopped)
    std::atomic_ref(s.result.interrupted).store(true);
  if (s.leader()) {
    if (stopped)
      s.console.line("stopped after step " + std::to_string(step));
    summarise(s, progress, step - first, firstLoss, times ? times->summary() : "");
  }
  if (times && step > first + 1)
    s.log.line(times->summary(s.world.rank()));
  TESSERA_RETURN_IF_ERROR(checkpoints.finish(step, step + ahead));
  if (s.options.evalEachEpoch && evaluated != step && !stopped)
    TESSERA_RETURN_IF_ERROR(evaluate(s, step));
  if (!s.options.saveWeights.empty())
    TESSERA_RETURN_IF_ERROR(saveWeights(s.executor, s.plan.ranks, s.options.saveWeights));
  return Status();
}

Status evaluate(Session &s, int64_t step) {
  const plan::Plan &plan = s.executor.plan();
  int program = findProgram(plan, "eval");
  if (program < 0)
    return Status::error("the plan has no program 'eval': compile with --train to get one");
  bool main = s.options.mode == RunMode::Evaluate;
  const std::string &spec =
      main || s.options.evalData.empty() ? s.options.data : s.options.evalData;
  Result<Feed> feed = Feed::open(s.executor, "eval", spec, s.dataOptions(false));
  if (!feed)
    return feed.status();
  if (s.leader() && main)
    s.console.line("data: " + feed->source().describe());
  int64_t batches = feed->source().batchesPerEpoch();
  if (main && s.options.steps > 0)
    batches = std::min(batches, s.options.steps);
  bool counts = !s.executor.bindings(plan::CORRECT, "eval").empty() &&
                !s.executor.bindings(plan::PREDICTIONS, "eval").empty();
  bool hasLoss = !s.executor.bindings(plan::LOSS, "eval").empty();
  double loss = 0, correct = 0, predictions = 0, begin = now();
  int64_t done = 0;
  bool stopped = false;
  for (; done < batches && !stopped; ++done) {
    TESSERA_RETURN_IF_ERROR(feed->next());
    TESSERA_RETURN_IF_ERROR(s.executor.feedStep("eval", step));
    TESSERA_RETURN_IF_ERROR(s.executor.run(program));
    auto add = [&](plan::Role role, double &sum) -> Status {
      Result<double> value = s.executor.fetchScalar(role, "eval");
      if (value)
        sum += *value;
      return value.status();
    };
    if (hasLoss)
      TESSERA_RETURN_IF_ERROR(add(plan::LOSS, loss));
    if (counts) {
      TESSERA_RETURN_IF_ERROR(add(plan::CORRECT, correct));
      TESSERA_RETURN_IF_ERROR(add(plan::PREDICTIONS, predictions));
    }
    Result<bool> stop = anyInterrupted(s.executor.everyone());
    if (!stop)
      return stop.status();
    stopped = *stop;
    if (s.leader())
      s.console.transient("evaluating " + std::to_string(done + 1) + "/" + std::to_string(batches));
  }
  if (!s.leader())
    return Status();
  loss /= static_cast<double>(done);
  std::vector<std::pair<std::string, double>> fields = {{"eval", 1},
                                                        {"step", static_cast<double>(step)}};
  std::string text = "evaluation of " + std::to_string(done) + " batches:";
  if (hasLoss) {
    text += " loss " + numberText(loss);
    fields.push_back({"loss", loss});
  }
  if (counts && predictions > 0) {
    s.result.accuracy = correct / predictions;
    text += "  accuracy " + numberText(100 * s.result.accuracy, 5) + " % (" +
            numberText(correct, 12) + " of " + numberText(predictions, 12) + ")";
    fields.insert(
        fields.end(),
        {{"accuracy", s.result.accuracy}, {"correct", correct}, {"predictions", predictions}});
  }
  fields.push_back({"seconds", now() - begin});
  s.console.line(text + "  in " + durationText(now() - begin));
  if (main) {
    s.result.loss = loss;
    s.result.steps = done;
    s.result.interrupted = stopped;
  }
  return s.console.log(fields);
}

} // namespace tessera::rt
