// train and evaluate.
#include "runtime/executor/GlobalTensors.h"
#include "runtime/executor/Launcher.h"
#include "runtime/executor/Session.h"
#include "runtime/plan/PlanInfo.h"

#include <cmath>

namespace tessera::rt {
namespace {

Status checkpoint(Session &s, int64_t step) {
  if (s.options.checkpointDir.empty())
    return Status();
  if (s.leader())
    TESSERA_RETURN_IF_ERROR(makeDirectory(s.options.checkpointDir));
  return saveWeights(s.executor, s.plan.ranks, s.options.checkpointDir + "/checkpoint.safetensors",
                     /*states=*/true,
                     {{"step", std::to_string(step)}, {"model", s.executor.plan().model()}});
}

/// How many steps a run has altogether, those of a checkpoint included.
int64_t lastStep(const RunOptions &options, int64_t perEpoch) {
  if (options.steps > 0)
    return options.steps;
  return std::max<int64_t>(options.epochs, 1) * perEpoch;
}

void summarise(Session &s, const Progress &progress, int64_t steps, double firstLoss) {
  uint64_t batch = s.executor.plan().global_batch();
  double median = progress.medianSeconds();
  s.console.line("trained " + std::to_string(steps) + " steps in " +
                 durationText(progress.totalSeconds()) + ": median " + numberText(median * 1e3, 4) +
                 " ms a step, " +
                 numberText(static_cast<double>(batch) / std::max(median, 1e-9), 4) +
                 " images/s, loss " + numberText(firstLoss) + " -> " + numberText(s.result.loss));
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
  int64_t last = lastStep(s.options, perEpoch);
  TESSERA_RETURN_IF_ERROR(feed->source().seek(s.firstStep));
  uint64_t batch = s.executor.plan().global_batch();
  if (s.leader()) {
    s.console.line("data: " + feed->source().describe());
    if (s.firstStep > 0)
      s.console.line("resumed after step " + std::to_string(s.firstStep));
  }
  Progress progress(s.console, s.firstStep, last, batch);
  double firstLoss = 0;
  int64_t step = s.firstStep;
  int64_t saved = -1, evaluated = -1;
  bool stopped = false;
  while (step < last && !stopped) {
    double begin = now();
    TESSERA_RETURN_IF_ERROR(feed->next());
    TESSERA_RETURN_IF_ERROR(s.executor.feedStep("train", step));
    TESSERA_RETURN_IF_ERROR(s.executor.run(program));
    Result<double> loss = s.executor.fetchScalar(plan::LOSS, "train");
    if (!loss)
      return loss.status();
    Result<bool> stop = anyInterrupted(s.executor.everyone());
    if (!stop)
      return stop.status();
    stopped = *stop;
    ++step;
    if (s.leader()) {
      double seconds = now() - begin;
      progress.step(step, *loss, seconds);
      if (step == s.firstStep + 1)
        firstLoss = *loss;
      s.result.loss = *loss;
      s.result.steps = step - s.firstStep;
      TESSERA_RETURN_IF_ERROR(s.console.log(
          {{"step", static_cast<double>(step)},
           {"epoch", static_cast<double>((step - 1) / perEpoch)},
           {"loss", *loss},
           {"seconds", seconds},
           {"images_per_second", static_cast<double>(batch) / std::max(seconds, 1e-9)}}));
    }
    bool epochEnds = step % perEpoch == 0;
    if ((s.options.checkpointEvery > 0 && step % s.options.checkpointEvery == 0) ||
        (s.options.checkpointEvery == 0 && epochEnds)) {
      TESSERA_RETURN_IF_ERROR(checkpoint(s, step));
      saved = step;
    }
    if (s.options.evalEachEpoch && epochEnds && !stopped) {
      TESSERA_RETURN_IF_ERROR(evaluate(s, step));
      evaluated = step;
    }
  }
  if (s.leader()) {
    s.result.interrupted = stopped;
    if (stopped)
      s.console.line("stopped after step " + std::to_string(step));
    summarise(s, progress, step - s.firstStep, firstLoss);
  }
  if (saved != step)
    TESSERA_RETURN_IF_ERROR(checkpoint(s, step));
  if (s.options.evalEachEpoch && evaluated != step && !stopped)
    TESSERA_RETURN_IF_ERROR(evaluate(s, step));
  if (!s.options.saveWeights.empty())
    TESSERA_RETURN_IF_ERROR(
        saveWeights(s.executor, s.plan.ranks, s.options.saveWeights, /*states=*/false));
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
