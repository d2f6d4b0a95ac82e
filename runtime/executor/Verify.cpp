// verify: the plan against the unpartitioned program.
//
// Rank 0 runs the sequential program beside its part of the plan, on the reference backend in F64, from
// the same weights on the same batches, and compares what it fetches there with what the ranks gather:
// losses, outputs, updated parameters and states.
//
// In F64 the two must agree to rounding after any number of steps. In single precision they cannot: a
// value that rounds to the other side of a rectifier's zero changes a gradient by as much as one element
// weighs, which in a sum that nearly cancels is a percent. There every step starts from the plan's own
// parameters on both sides, so that nothing accumulates; forward values are held to the tolerance, and
// updated tensors to a coarser one in the root mean square.
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
  double absolute = 0, scale = 0; // largest difference, largest expected magnitude
  double rms = 0, rmsScale = 0;   // the same as root mean squares
  double relative = 0;            // what is held to the tolerance
  bool failed = false;
};

/// Compares two tensors; a NaN on one side only is an infinite difference.
Difference compare(const std::string &what, const std::vector<double> &expected,
                   const std::vector<double> &found) {
  Difference d{what};
  double squares = 0, scaleSquares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(expected[i])) {
      d.scale = std::max(d.scale, std::fabs(expected[i]));
      scaleSquares += expected[i] * expected[i];
    }
    if (expected[i] == found[i] || (std::isnan(expected[i]) && std::isnan(found[i])))
      continue;
    double difference = std::fabs(expected[i] - found[i]);
    if (std::isnan(difference))
      difference = HUGE_VAL;
    d.absolute = std::max(d.absolute, difference);
    squares += difference * difference;
  }
  d.rms = std::sqrt(squares / static_cast<double>(expected.size()));
  d.rmsScale = std::sqrt(scaleSquares / static_cast<double>(expected.size()));
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
      std::string suffix = " of step " + std::to_string(step + 1);
      for (plan::Role role : {plan::LOSS, plan::CORRECT, plan::PREDICTIONS})
        TESSERA_RETURN_IF_ERROR(compareRole(role, name, suffix));
      if (training && !s_.options.widen)
        TESSERA_RETURN_IF_ERROR(compareUpdated(" after step " + std::to_string(step + 1)));
      Result<bool> stop = anyInterrupted(s_.executor.everyone());
      if (!stop)
        return stop.status();
      if (*stop)
        return Status::error("interrupted");
    }
    TESSERA_RETURN_IF_ERROR(compareRole(plan::OUTPUT, name, ""));
    return training && s_.options.widen ? compareUpdated("") : Status();
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
                    " values and tensors; the largest differences (absolute, relative):");
    size_t shown = std::max<size_t>(10, std::min<size_t>(failed, 50));
    for (size_t i = 0; i < differences_.size() && i < shown; ++i) {
      const Difference &d = differences_[i];
      s_.console.line("  " + numberText(d.absolute, 3) + "  " + numberText(d.relative, 3) + "  " +
                      d.what + (d.failed ? "  FAILED" : ""));
    }
    s_.result.verified = failed == 0;
    std::string allowed = " (tolerance: losses " + numberText(tolerance(), 3) + ", outputs " +
                          numberText(outputTolerance(), 3) + ", updated tensors " +
                          numberText(updatedTolerance(), 3) +
                          (s_.options.widen ? ")" : " in the root mean square; --f64 is exact)");
    s_.console.line((failed == 0 ? "verified: the plan computes what the unpartitioned program does"
                                 : "NOT verified: " + std::to_string(failed) + " differ") +
                    allowed);
  }

private:
  double tolerance() const {
    return s_.options.tolerance > 0 ? s_.options.tolerance : s_.options.widen ? 1e-10 : 1e-4;
  }
  double outputTolerance() const { return 10 * tolerance(); }
  double updatedTolerance() const { return (s_.options.widen ? 10 : 500) * tolerance(); }

  /// Gathers a binding of the plan and fetches the sequential program's of the same name; both are
  /// filled on rank 0. `other` becomes its index there.
  Status fetchBoth(int binding, const std::string &program, std::vector<double> &expected,
                   std::vector<double> &found, int &other) {
    const plan::Binding &b = s_.executor.plan().bindings(binding);
    std::vector<char> bytes;
    TESSERA_RETURN_IF_ERROR(gatherGlobal(s_.executor, s_.plan.ranks, binding, bytes));
    if (!s_.leader())
      return Status();
    found = asDoubles(bytes, s_.executor.heldType(binding));
    other = -1;
    for (int candidate : sequential_.executor->bindings(b.role(), program))
      if (s_.plan.sequential->bindings(candidate).name() == b.name())
        other = candidate;
    if (other < 0)
      return Status::error("sequential.plan has no " + roleName(b.role()) + " " + quoted(b.name()));
    TESSERA_RETURN_IF_ERROR(sequential_.executor->fetch(other, bytes));
    expected = asDoubles(bytes, sequential_.executor->heldType(other));
    if (expected.size() != found.size())
      return Status::error("sequential.plan has another shape for " + quoted(b.name()));
    return Status();
  }

  /// Losses, counts and outputs.
  Status compareRole(plan::Role role, const std::string &program, const std::string &suffix) {
    std::vector<double> expected, found;
    int other = -1;
    for (int binding : s_.executor.bindings(role, program)) {
      TESSERA_RETURN_IF_ERROR(fetchBoth(binding, program, expected, found, other));
      if (!s_.leader())
        continue;
      std::string what = program + ": " + roleName(role);
      if (role == plan::OUTPUT)
        what += " " + quoted(s_.executor.plan().bindings(binding).name());
      Difference d = compare(what + suffix, expected, found);
      d.relative = d.absolute == 0 ? 0 : d.absolute / std::max(d.scale, 1e-30);
      d.failed = !(d.relative <= (role == plan::OUTPUT ? outputTolerance() : tolerance()));
      // A near tie may fall to the other side in F32: one prediction is no difference.
      if (role == plan::CORRECT && !s_.options.widen)
        d.failed = !(d.absolute <= 1);
      differences_.push_back(d);
      if (role != plan::LOSS)
        continue;
      s_.result.loss = found[0];
      s_.console.line(d.what + ": " + numberText(found[0], 9) + ", sequential " +
                      numberText(expected[0], 9) + ", relative difference " +
                      numberText(d.relative, 3));
      TESSERA_RETURN_IF_ERROR(s_.console.log({{"step", static_cast<double>(++steps_)},
                                              {"loss", found[0]},
                                              {"sequential_loss", expected[0]},
                                              {"relative_difference", d.relative}}));
    }
    return Status();
  }

  /// Parameters and states; the next step starts from the plan's on both sides, unless widened.
  Status compareUpdated(const std::string &suffix) {
    for (plan::Role role : {plan::PARAMETER, plan::STATE}) {
      std::vector<Difference> compared;
      std::vector<double> expected, found;
      int other = -1;
      for (int binding : s_.executor.bindings(role, "")) {
        TESSERA_RETURN_IF_ERROR(fetchBoth(binding, "", expected, found, other));
        if (!s_.leader())
          continue;
        compared.push_back(compare(roleName(role) + " " +
                                       quoted(s_.executor.plan().bindings(binding).name()) + suffix,
                                   expected, found));
        if (!s_.options.widen)
          TESSERA_RETURN_IF_ERROR(sequential_.executor->set(other, found.data(), plan::F64));
      }
      // A tensor whose exact value is zero (the gradient of a bias before a normalisation) holds
      // rounding errors only: it is measured against the others.
      double scale = 1e-30, rmsScale = 1e-30;
      for (const Difference &d : compared) {
        scale = std::max(scale, 1e-3 * d.scale);
        rmsScale = std::max(rmsScale, 1e-3 * d.rmsScale);
      }
      for (Difference &d : compared) {
        d.relative = s_.options.widen ? d.absolute / std::max(d.scale, scale)
                                      : d.rms / std::max(d.rmsScale, rmsScale);
        d.failed = !(d.relative <= updatedTolerance());
        differences_.push_back(d);
      }
    }
    return Status();
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
  }
  verifier.report();
  return Status();
}

} // namespace tessera::rt
