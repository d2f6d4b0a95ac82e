// evaluate: one pass over the evaluation data.
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Session.h"

#include <algorithm>

namespace tessera::rt {

Status evaluate(Session &s, int64_t step) {
  const plan::Plan &plan = s.executor.plan();
  int program = findProgram(plan, "eval");
  if (program < 0)
    return Status::error("the plan has no program 'eval': compile with --train to get one");
  bool main = s.options.mode == RunMode::Evaluate;
  const std::string &spec = main || s.options.evalData.empty() ? s.options.data : s.options.evalData;
  Result<Feed> feed = Feed::open(s.executor, s.tensors, "eval", spec, s.dataOptions(false));
  if (!feed)
    return feed.status();
  if (s.leader() && main)
    s.console.line("data: " + feed->source().describe());
  int64_t batches = feed->source().batchesPerEpoch();
  if (main && s.options.steps > 0)
    batches = std::min(batches, s.options.steps);
  bool counts =
      !s.executor.bindings(plan::CORRECT, "eval").empty() && !s.executor.bindings(plan::PREDICTIONS, "eval").empty();
  bool hasLoss = !s.executor.bindings(plan::LOSS, "eval").empty();
  double loss = 0, correct = 0, predictions = 0, begin = now();
  int64_t done = 0;
  int stopped = 0; // by this signal
  for (; done < batches && !stopped; ++done) {
    TESSERA_RETURN_IF_ERROR(feed->next());
    TESSERA_RETURN_IF_ERROR(s.executor.feedStep("eval", step));
    TESSERA_RETURN_IF_ERROR(s.executor.run(program, [&] {
      if (done + 1 < batches)
        feed->ahead();
    }));
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
    Result<int> stop = anyInterrupted(s.executor.everyone());
    if (!stop)
      return stop.status();
    stopped = *stop;
    if (s.leader())
      s.console.transient("evaluating " + std::to_string(done + 1) + "/" + std::to_string(batches));
  }
  if (!s.leader())
    return Status();
  loss /= double(done);
  std::vector<std::pair<std::string, double>> fields = {{"eval", 1}, {"step", double(step)}};
  std::string text = "evaluation of " + std::to_string(done) + " batches:";
  if (hasLoss) {
    text += " loss " + numberText(loss);
    fields.push_back({"loss", loss});
  }
  if (counts && predictions > 0) {
    s.result.accuracy = correct / predictions;
    text += "  accuracy " + numberText(100 * s.result.accuracy, 5) + " % (" + numberText(correct, 12) + " of " +
            numberText(predictions, 12) + ")";
    fields.insert(fields.end(), {{"accuracy", s.result.accuracy}, {"correct", correct}, {"predictions", predictions}});
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
