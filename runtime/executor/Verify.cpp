// verify: the plan against the unpartitioned program.
//
// Rank 0 runs the sequential program beside its part of the plan, on the reference backend in F64, from
// the same weights on the same batches, and compares what it fetches there with what the ranks gather:
// the loss of every step, the outputs of the last, all parameters and states at the end.
#include "runtime/comm/ThreadWorld.h"
#include "runtime/executor/GlobalTensors.h"
#include "runtime/executor/Launcher.h"
#include "runtime/executor/Session.h"
#include "runtime/plan/Convert.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {
namespace {

struct Difference {
  std::string what;
  double absolute = 0, relative = 0; // relative to the tensor's largest magnitude
  bool failed = false;
};

/// Compares `count` elements; a NaN on one side only is an infinite difference.
Difference compare(const std::string &what, const std::vector<double> &expected,
                   const std::vector<double> &found) {
  Difference d{what};
  double scale = 0;
  for (double value : expected)
    if (std::isfinite(value))
      scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == found[i] || (std::isnan(expected[i]) && std::isnan(found[i])))
      continue;
    double difference = std::fabs(expected[i] - found[i]);
    d.absolute = std::max(d.absolute, std::isnan(difference) ? HUGE_VAL : difference);
  }
  d.relative = d.absolute == 0 ? 0 : d.absolute / std::max(scale, 1e-30);
  return d;
}

std::vector<double> asDoubles(const std::vector<char> &bytes, plan::DType type) {
  std::vector<double> values(bytes.size() / bytesPerElement(type));
  convertElements(bytes.data(), type, values.data(), plan::F64, values.size());
  return values;
}

/// The sequential side; exists on rank 0.
struct Sequential {
  std::vector<std::unique_ptr<World>> world = createThreadWorlds(1);
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> executor;
  std::optional<Feed> feed;
};

class Verifier {
public:
  explicit Verifier(Session &session) : s_(session) {}

  Status start() {
    if (!s_.plan.sequential)
      return Status::error(s_.plan.path + ": has no sequential.plan to verify with");
    if (!s_.leader())
      return Status();
    Result<std::unique_ptr<Backend>> backend = createBackend("reference");
    if (!backend)
      return backend.status();
    sequential_.backend = std::move(*backend);
    LoadOptions options;
    options.threads = s_.options.threads;
    options.widen = true;
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(*s_.plan.sequential, *sequential_.backend, *sequential_.world[0], options);
    if (!executor)
      return executor.status().context("sequential.plan");
    sequential_.executor = std::move(*executor);
    std::string path = s_.options.weights.empty() ? s_.plan.weights : s_.options.weights;
    if (!s_.options.resumeDir.empty())
      path = s_.options.resumeDir + "/checkpoint.safetensors";
    if (path.empty())
      return sequential_.executor->loadWeights(nullptr, false);
    Result<Safetensors> file = Safetensors::open(path);
    if (!file)
      return file.status();
    return sequential_.executor->loadWeights(&*file, !s_.options.resumeDir.empty());
  }

  /// Runs `steps` steps of a program on both sides.
  Status run(const std::string &name, bool training, int64_t steps) {
    int program = findProgram(s_.executor.plan(), name);
    Result<Feed> feed = Feed::open(s_.executor, name, s_.options.data, s_.dataOptions(training));
    if (!feed)
      return feed.status();
    TESSERA_RETURN_IF_ERROR(feed->source().seek(s_.firstStep));
    int other = -1;
    if (s_.leader()) {
      other = findProgram(*s_.plan.sequential, name);
      if (other < 0)
        return Status::error("sequential.plan has no program " + quoted(name));
      Result<Feed> all =
          Feed::open(*sequential_.executor, name, s_.options.data, s_.dataOptions(training));
      if (!all)
        return all.status().context("sequential.plan");
      sequential_.feed.emplace(std::move(*all));
      TESSERA_RETURN_IF_ERROR(sequential_.feed->source().seek(s_.firstStep));
    }
    for (int64_t i = 0; i < steps; ++i) {
      int64_t step = s_.firstStep + i;
      TESSERA_RETURN_IF_ERROR(feed->next());
      TESSERA_RETURN_IF_ERROR(s_.executor.feedStep(name, step));
      TESSERA_RETURN_IF_ERROR(s_.executor.run(program));
      if (s_.leader()) {
        TESSERA_RETURN_IF_ERROR(sequential_.feed->next().context("sequential.plan"));
        TESSERA_RETURN_IF_ERROR(sequential_.executor->feedStep(name, step));
        TESSERA_RETURN_IF_ERROR(sequential_.executor->run(other).context("sequential.plan"));
        s_.console.transient("verifying program " + name + ", step " + std::to_string(i + 1) + "/" +
                             std::to_string(steps));
      }
      for (plan::Role role : {plan::LOSS, plan::CORRECT, plan::PREDICTIONS})
        TESSERA_RETURN_IF_ERROR(compareRole(role, name, " of step " + std::to_string(step + 1), 1));
      Result<bool> stop = anyInterrupted(s_.executor.everyone());
      if (!stop)
        return stop.status();
      if (*stop)
        return Status::error("interrupted");
    }
    return compareRole(plan::OUTPUT, name, "", 10);
  }

  /// Compares every binding of a role; `slack` times the tolerance is allowed.
  Status compareRole(plan::Role role, const std::string &program, const std::string &suffix,
                     double slack) {
    const plan::Plan &plan = s_.executor.plan();
    std::vector<char> bytes;
    for (int binding : s_.executor.bindings(role, program)) {
      TESSERA_RETURN_IF_ERROR(gatherGlobal(s_.executor, s_.plan.ranks, binding, bytes));
      if (!s_.leader())
        continue;
      const std::string &name = plan.bindings(binding).name();
      std::string what = (program.empty() ? "" : program + ": ") + roleName(role) +
                         (slack > 1 ? " " + quoted(name) : "") + suffix;
      std::vector<double> found = asDoubles(bytes, s_.executor.heldType(binding));
      int other = -1;
      for (int candidate : sequential_.executor->bindings(role, program))
        if (s_.plan.sequential->bindings(candidate).name() == name)
          other = candidate;
      if (other < 0)
        return Status::error("sequential.plan has no " + what);
      TESSERA_RETURN_IF_ERROR(sequential_.executor->fetch(other, bytes));
      std::vector<double> expected = asDoubles(bytes, sequential_.executor->heldType(other));
      if (expected.size() != found.size())
        return Status::error("sequential.plan has another shape for " + what);
      Difference d = compare(what, expected, found);
      d.failed = !(d.relative <= slack * tolerance());
      // A near tie may fall to the other side in F32: one prediction is no difference.
      if (role == plan::CORRECT && !s_.options.widen)
        d.failed = !(d.absolute <= 1);
      differences_.push_back(d);
      if (role == plan::LOSS) {
        s_.result.loss = found[0];
        s_.console.line(what + ": " + numberText(found[0], 9) + ", sequential " +
                        numberText(expected[0], 9) + ", relative difference " +
                        numberText(d.relative, 3));
        TESSERA_RETURN_IF_ERROR(s_.console.log({{"step", static_cast<double>(++steps_)},
                                                {"loss", found[0]},
                                                {"sequential_loss", expected[0]},
                                                {"relative_difference", d.relative}}));
      }
    }
    return Status();
  }

  void report() {
    if (!s_.leader())
      return;
    std::stable_sort(differences_.begin(), differences_.end(),
                     [](const Difference &a, const Difference &b) {
                       return std::pair(a.failed, a.relative) > std::pair(b.failed, b.relative);
                     });
    size_t failed = 0;
    for (const Difference &d : differences_)
      failed += d.failed;
    s_.console.line("compared " + std::to_string(differences_.size()) +
                    " values and tensors; the largest differences (absolute, relative to the "
                    "tensor's largest magnitude):");
    for (size_t i = 0;
         i < differences_.size() && i < std::max<size_t>(10, std::min<size_t>(failed, 50)); ++i) {
      const Difference &d = differences_[i];
      s_.console.line("  " + numberText(d.absolute, 3) + "  " + numberText(d.relative, 3) + "  " +
                      d.what + (d.failed ? "  FAILED" : ""));
    }
    s_.result.verified = failed == 0;
    std::string allowed =
        "tolerance " + numberText(tolerance(), 3) + ", tensors " + numberText(10 * tolerance(), 3);
    s_.console.line(failed == 0
                        ? "verified: the plan computes what the unpartitioned program does (" +
                              allowed + ")"
                        : "NOT verified: " + std::to_string(failed) + " differ (" + allowed + ")");
  }

private:
  double tolerance() const {
    return s_.options.tolerance > 0 ? s_.options.tolerance : s_.options.widen ? 1e-10 : 1e-4;
  }

  Session &s_;
  Sequential sequential_;
  std::vector<Difference> differences_;
  int64_t steps_ = 0;
};

} // namespace

Status verify(Session &s) {
  Verifier verifier(s);
  TESSERA_RETURN_IF_ERROR(verifier.start());
  const plan::Plan &plan = s.executor.plan();
  // Evaluation first: it reads the weights that training then changes.
  for (const char *name : {"infer", "eval"})
    if (findProgram(plan, name) >= 0)
      TESSERA_RETURN_IF_ERROR(verifier.run(name, false, 1));
  if (findProgram(plan, "train") >= 0) {
    int64_t steps = s.options.steps > 0 ? s.options.steps : 3;
    TESSERA_RETURN_IF_ERROR(verifier.run("train", true, steps));
    if (s.leader())
      s.result.steps = steps;
    for (plan::Role role : {plan::PARAMETER, plan::STATE})
      TESSERA_RETURN_IF_ERROR(verifier.compareRole(role, "", "", 10));
  }
  verifier.report();
  return Status();
}

} // namespace tessera::rt
