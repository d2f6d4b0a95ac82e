// verify: the plan against the unpartitioned program.
//
// Rank 0 runs the sequential program beside its part of the plan, on the reference backend in F64, from
// the same weights on the same batches, and compares what it fetches there with what the ranks gather:
// losses, outputs, updated parameters and states.
//
// In F64 the two must agree to rounding after any number of steps. In single precision they cannot: a
// value that rounds to the other side of a rectifier's zero changes a gradient by as much as one element
// weighs, which in a sum that nearly cancels is a percent. How far rounding alone carries this network,
// at these weights, on this batch, is therefore measured: the sequential program runs in the plan's own
// precision too, once as it is and once with its parameters moved by a unit in the last place, and every
// tensor of the plan may differ from the F64 result by some times what these samples do. A tensor beyond
// that has more samples taken before it counts as wrong: a single flip may have missed the first two.
// (Perturbing inputs by their rounding error to estimate a computation's conditioning: Parker, "Monte
// Carlo arithmetic", 1997.) Every step starts from the plan's own parameters on all sides, so that nothing
// accumulates.
//
// Where products read 16 bits, loops of the plan keep digits that the sequential program, operator by operator,
// rounds away, in F64 as well. The samples' parameters are then moved by what such a rounding moves them, and what
// was moved is taken off their new values again: it is no part of the step.
//
// Where the plan is reproducible, the sequential program is so too, and the first sample, which moves nothing, must
// give the bits of the plan as well.
#include "runtime/executor/GlobalTensors.h"
// Where a plan sends sums of gradients in fewer bits (docs/adr/0024-compressed-reductions.md), it computes another
// function: what its gradients reach differs by what was rounded. Those tensors are compared and told, and not judged;
// all others are. Every step starts from the plan's own parameters here, too.
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Replica.h"
#include "runtime/support/UnsentNames.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>

namespace tessera::rt {
namespace {

/// How many times the distance of rounding samples a plan may be away, in the root mean square, and at a
/// tensor's worst element.
constexpr double kRmsFactor = 16, kWorstFactor = 64;
/// The same factors where products read 16 bits. There every parameter moves by more than it is rounded, so that
/// samples are seldom nearer than the plan.
constexpr double kHalfRmsFactor = 4, kHalfWorstFactor = 16;
constexpr int kFirstSamples = 2, kMostSamples = 8;

struct Distance {
  double absolute = 0, rms = 0;
  void include(const Distance &other) {
    absolute = std::max(absolute, other.absolute);
    rms = std::max(rms, other.rms);
  }
};

/// The distance of two values. A NaN on one side only gives an infinite distance.
Distance distance(const std::vector<double> &expected, const std::vector<double> &found) {
  Distance d;
  double squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == found[i] || (std::isnan(expected[i]) && std::isnan(found[i])))
      continue;
    double difference = std::fabs(expected[i] - found[i]);
    if (std::isnan(difference))
      difference = HUGE_VAL;
    d.absolute = std::max(d.absolute, difference);
    squares += difference * difference;
  }
  d.rms = std::sqrt(squares / double(expected.size()));
  return d;
}

/// Whether all bits are equal; one NaN is as good as another.
bool sameBits(const std::vector<double> &a, const std::vector<double> &b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

/// One value or tensor after one step.
struct Compared {
  std::string what;
  plan::Role role = plan::ROLE_INVALID;
  int binding = -1;                // of the sequential plan
  Distance found = {};             // of the plan's result from the exact result
  Distance noise = {};             // of the samples' results from the exact result
  Distance scale = {};             // of the exact result from zero
  std::vector<double> values = {}; // the plan's, where bits are compared
  bool same = true;                // the plan's bits are those of the sequential program
  bool compressed = false;         // it follows from gradients that were sent in fewer bits, and is not judged
  bool failed = false;
  double relative() const { return found.absolute == 0 ? 0 : found.absolute / std::max(scale.absolute, 1e-30); }
};

class Verifier {
public:
  explicit Verifier(Session &session)
      : s_(session), half_(s_.plan.sequential ? halfUnit(*s_.plan.sequential) : 0),
        reproducible_(s_.plan.sequential && s_.plan.sequential->leaves() > 0) {
    for (int tensor : s_.tensors.of(plan::STATE, ""))
      if (const std::string &name = s_.tensors.binding(tensor).name(); isUnsent(name))
        compressed_.insert(name.substr(name.find('/') + 1));
    // The norm of all gradients reaches every parameter.
    if (!compressed_.empty() && !s_.tensors.of(plan::GRADIENT_NORM, "train").empty())
      for (int tensor : s_.tensors.of(plan::PARAMETER, ""))
        compressed_.insert(s_.tensors.binding(tensor).name());
  }

  Status start() {
    if (!s_.leader())
      return Status();
    LoadOptions options;
    options.threads = s_.options.threads;
    options.widen = true;
    TESSERA_RETURN_IF_ERROR(load(judge_, "reference", options));
    if (!sampled())
      return Status();
    options.widen = s_.options.widen;
    TESSERA_RETURN_IF_ERROR(load(sampler_, s_.options.backend == "reference" ? "reference" : "cpu", options));
    for (plan::Role role : {plan::PARAMETER, plan::STATE})
      for (int binding : judge_->executor().bindings(role, ""))
        TESSERA_RETURN_IF_ERROR(judge_->fetch(binding, held_[binding]));
    return Status();
  }

  /// Runs `steps` steps of the plan, of the judge and of the samples.
  Status run(const std::string &name, bool training, int64_t steps) {
    int program = findProgram(s_.executor.plan(), name);
    DataOptions data = s_.dataOptions(training);
    Result<Feed> feed = Feed::open(s_.executor, s_.tensors, name, s_.options.data, data);
    if (!feed)
      return feed.status();
    Result<int64_t> first = s_.firstBatch(feed->source());
    if (!first)
      return first.status();
    TESSERA_RETURN_IF_ERROR(feed->source().seek(*first));
    for (Replica *replica : {judge_.get(), sampler_.get()})
      if (replica)
        TESSERA_RETURN_IF_ERROR(replica->open(name, s_.options.data, data, *first));
    for (int64_t i = 0; i < steps; ++i) {
      int64_t step = s_.firstStep() + i;
      TESSERA_RETURN_IF_ERROR(feed->next());
      TESSERA_RETURN_IF_ERROR(s_.executor.feedStep(name, step));
      TESSERA_RETURN_IF_ERROR(s_.executor.run(program));
      if (s_.leader()) {
        s_.console.transient("verifying program " + name + ", step " + std::to_string(i + 1) + "/" +
                             std::to_string(steps));
        TESSERA_RETURN_IF_ERROR(judge_->next());
        TESSERA_RETURN_IF_ERROR(judge_->step(step));
      }
      bool last = i + 1 == steps;
      std::string suffix = " of step " + std::to_string(step + 1);
      std::vector<Compared> compared;
      for (plan::Role role :
           {plan::LOSS, plan::CORRECT, plan::PREDICTIONS, plan::OUTPUT, plan::LEARNING_RATE, plan::GRADIENT_NORM})
        TESSERA_RETURN_IF_ERROR(gather(role, name, name + ": " + roleName(role), suffix, compared));
      if (training && (last || restarts()))
        for (plan::Role role : {plan::PARAMETER, plan::STATE})
          TESSERA_RETURN_IF_ERROR(
              gather(role, "", roleName(role), " after step " + std::to_string(step + 1), compared));
      if (s_.leader())
        TESSERA_RETURN_IF_ERROR(judge(compared, step));
      Result<int> stop = anyInterrupted(s_.executor.everyone());
      if (!stop)
        return stop.status();
      if (stopped_ = *stop; stopped_ != 0)
        return Status();
    }
    return Status();
  }

  /// The signal that has ended a run before its end, or 0.
  int stopped() const { return stopped_; }

  void report() {
    if (!s_.leader())
      return;
    std::stable_sort(all_.begin(), all_.end(), [](const Compared &a, const Compared &b) {
      return std::pair(a.failed, a.relative()) > std::pair(b.failed, b.relative());
    });
    size_t failed = size_t(std::count_if(all_.begin(), all_.end(), [](const Compared &c) { return c.failed; }));
    bool rounded = sampled();
    s_.console.line("compared " + std::to_string(all_.size()) +
                    " values and tensors; the largest differences (absolute, relative" +
                    (rounded ? ", what rounding alone does):" : "):"));
    size_t shown = std::max<size_t>(10, std::min<size_t>(failed, 50));
    for (size_t i = 0; i < all_.size() && i < shown; ++i) {
      const Compared &c = all_[i];
      const std::string verdict = c.failed ? "  FAILED" : c.compressed ? "  (compressed)" : "";
      s_.console.line("  " + numberText(c.found.absolute, 3) + "  " + numberText(c.relative(), 3) + "  " +
                      (rounded ? numberText(c.noise.absolute, 3) + "  " : "") + c.what + verdict +
                      (c.same ? "" : ": other bits than those of the unpartitioned program"));
    }
    if (const auto told = std::count_if(all_.begin(), all_.end(), [](const Compared &c) { return c.compressed; }))
      s_.console.line(std::to_string(told) +
                      " of them (compressed) are not judged: they follow from gradients that the plan sends in fewer "
                      "bits, which is another function than the unpartitioned program");
    s_.result.verified = failed == 0;
    std::string allowed = comparesBits() ? " (from the exact result: tolerance: relative " : " (tolerance: relative ";
    allowed += numberText(tolerance(), 3);
    allowed += rounded ? ", or " + numberText(rmsFactor(), 3) + " times what rounding alone does" +
                             (half_ ? ")" : "; --f64 is exact)")
                       : " for losses, 10 times that for tensors)";
    s_.console.line((failed == 0 ? "verified: the plan computes what the unpartitioned program does" +
                                       std::string(comparesBits() ? ", to the bit" : "")
                                 : "NOT verified: " + std::to_string(failed) + " differ") +
                    allowed);
  }

private:
  double tolerance() const {
    if (s_.options.tolerance > 0)
      return s_.options.tolerance;
    return sampled() ? 1e-6 : 1e-10;
  }
  /// Whether every step starts from the plan's parameters on all sides.
  bool restarts() const { return sampled() || !compressed_.empty(); }
  /// Whether the tensor follows from gradients that were sent in fewer bits.
  bool isCompressed(plan::Role role, const std::string &name) const {
    if (role == plan::GRADIENT_NORM)
      return !compressed_.empty();
    if (role == plan::STATE && name.find('/') != std::string::npos)
      return compressed_.count(name.substr(name.find('/') + 1)) > 0;
    return role == plan::PARAMETER && compressed_.count(name) > 0;
  }
  /// Whether rounding errors are larger than the last digits of F64, so that they must be sampled.
  bool sampled() const { return !s_.options.widen || half_; }
  /// Whether a replica computes on the plan's backend in the plan's precision what has one result on every mesh.
  bool comparesBits() const {
    return reproducible_ && !runsOnDevice(s_.options.backend) && (sampled() || s_.options.backend == "reference");
  }
  double rmsFactor() const { return half_ > 0 ? kHalfRmsFactor : kRmsFactor; }
  double worstFactor() const { return half_ > 0 ? kHalfWorstFactor : kWorstFactor; }
  /// The relative rounding error of the operands of products.
  double unit() const { return std::max(half_, std::ldexp(1.0, s_.options.tf32 ? -10 : -23)); }
  /// The relative rounding error of the coarsest 16-bit type in the sequential program; 0 if it has none.
  static double halfUnit(const plan::Plan &plan) {
    double unit = 0;
    for (const plan::Buffer &b : plan.buffers())
      unit = std::max(unit, b.dtype() == plan::BF16 ? 0x1p-8 : b.dtype() == plan::F16 ? 0x1p-11 : 0);
    return unit;
  }

  Status load(std::unique_ptr<Replica> &replica, std::string_view backend, const LoadOptions &options) {
    Result<std::unique_ptr<Replica>> created = Replica::create(s_.plan, backend, options);
    if (!created)
      return created.status();
    replica = std::move(*created);
    return loadInitialWeights(s_, replica->executor());
  }

  /// Gathers all of the plan's bindings of a role; on rank 0, adds them with their distance from the judge's.
  Status gather(plan::Role role, const std::string &program, const std::string &what, const std::string &suffix,
                std::vector<Compared> &compared) {
    std::vector<char> bytes;
    std::vector<double> expected;
    for (int tensor : s_.tensors.of(role, program)) {
      const plan::Binding &bound = s_.tensors.binding(tensor);
      if (role == plan::STATE && isUnsent(bound.name()))
        continue; // the unpartitioned program has none
      TESSERA_RETURN_IF_ERROR(gatherGlobal(s_.executor, s_.tensors, tensor, bytes));
      if (!s_.leader())
        continue;
      std::vector<double> found = asDoubles(bytes, s_.executor.heldType(s_.tensors.type(tensor)));
      bool named = role == plan::OUTPUT || role == plan::PARAMETER || role == plan::STATE;
      Compared c{what + (named ? " " + quoted(bound.name()) : "") + suffix, role};
      c.compressed = isCompressed(role, bound.name());
      c.binding = judge_->find(role, bound.name());
      if (c.binding < 0)
        return Status::error("sequential.plan has no " + roleName(role) + " " + quoted(bound.name()));
      TESSERA_RETURN_IF_ERROR(judge_->fetch(c.binding, expected));
      if (expected.size() != found.size())
        return Status::error("sequential.plan has another shape for " + quoted(bound.name()));
      c.found = distance(expected, found);
      c.scale = distance(expected, std::vector<double>(expected.size(), 0.0));
      if (comparesBits() && !sampled())
        c.same = sameBits(expected, found);
      else if (comparesBits())
        c.values = found;
      if (role == plan::LOSS)
        TESSERA_RETURN_IF_ERROR(tell(c, found[0], expected[0]));
      if ((role == plan::PARAMETER || role == plan::STATE) && restarts())
        after_[c.binding] = std::move(found);
      compared.push_back(std::move(c));
    }
    return Status();
  }

  Status tell(const Compared &loss, double found, double expected) {
    s_.result.loss = found;
    s_.console.line(loss.what + ": " + numberText(found, 9) + ", sequential " + numberText(expected, 9) +
                    ", relative difference " + numberText(loss.relative(), 3));
    return s_.console.log({{"step", double(++steps_)},
                           {"loss", found},
                           {"sequential_loss", expected},
                           {"relative_difference", loss.relative()}});
  }

  /// Judges the tensors of one step. The next step starts from the plan's parameters on all sides.
  Status judge(std::vector<Compared> &compared, int64_t step) {
    if (!sampled()) {
      judgeExact(compared);
    } else {
      TESSERA_RETURN_IF_ERROR(sampler_->next());
      for (int samples = 0; samples < kFirstSamples || (samples < kMostSamples && judgeRounded(compared));)
        TESSERA_RETURN_IF_ERROR(sample(samples++, step, compared));
      judgeRounded(compared);
    }
    for (auto &[binding, values] : after_) {
      TESSERA_RETURN_IF_ERROR(judge_->set(binding, values));
      held_[binding] = std::move(values);
    }
    after_.clear();
    for (Compared &c : compared)
      c.values = {};
    all_.insert(all_.end(), compared.begin(), compared.end());
    return Status();
  }

  void judgeExact(std::vector<Compared> &compared) const {
    // A tensor whose exact value is zero (the gradient of a bias before a normalisation) holds only rounding errors. So
    // it is compared with the size of the other tensors of its role.
    std::map<plan::Role, double> floor;
    for (const Compared &c : compared)
      floor[c.role] = std::max(floor[c.role], 1e-3 * c.scale.absolute);
    for (Compared &c : compared) {
      bool tensor = c.role == plan::OUTPUT || c.role == plan::PARAMETER || c.role == plan::STATE;
      c.failed =
          !(c.found.absolute <= (tensor ? 10 : 1) * tolerance() * std::max(c.scale.absolute, floor[c.role])) || !c.same;
      c.failed &= !c.compressed;
    }
  }

  /// Whether any tensor failed.
  bool judgeRounded(std::vector<Compared> &compared) const {
    bool any = false;
    for (Compared &c : compared) {
      double worst = std::max(tolerance() * c.scale.absolute, worstFactor() * c.noise.absolute);
      double rms = std::max(tolerance() * c.scale.rms, rmsFactor() * c.noise.rms);
      // Counts are whole numbers: only predictions that nearly tie may change.
      if (c.role == plan::CORRECT)
        worst = rms = 2 * c.noise.absolute;
      c.failed = !(c.found.absolute <= worst && c.found.rms <= rms && c.same) && !c.compressed;
      any |= c.failed;
    }
    return any;
  }

  /// Runs the sequential program in the plan's precision on the present batch. All samples but the first move the
  /// parameters by up to one unit in the last place.
  Status sample(int index, int64_t step, std::vector<Compared> &compared) {
    std::mt19937_64 random(static_cast<uint64_t>(index));
    std::uniform_real_distribution<double> move(-1, 1);
    std::map<int, std::vector<double>> moved; // by how much
    std::vector<double> values;
    for (const auto &[binding, held] : held_) {
      values = held;
      if (index > 0 && sampler_->executor().plan().bindings(binding).role() == plan::PARAMETER) {
        for (double &value : values)
          value *= 1 + unit() * move(random);
        TESSERA_RETURN_IF_ERROR(sampler_->set(binding, values));
        std::vector<double> &by = moved[binding];
        TESSERA_RETURN_IF_ERROR(sampler_->fetch(binding, by)); // as rounded to the type of the buffer
        for (size_t i = 0; i < by.size(); ++i)
          by[i] -= held[i];
        continue;
      }
      TESSERA_RETURN_IF_ERROR(sampler_->set(binding, values));
    }
    TESSERA_RETURN_IF_ERROR(sampler_->step(step));
    std::vector<double> expected;
    for (Compared &c : compared) {
      TESSERA_RETURN_IF_ERROR(judge_->fetch(c.binding, expected));
      TESSERA_RETURN_IF_ERROR(sampler_->fetch(c.binding, values));
      if (index == 0 && comparesBits())
        c.same = sameBits(values, c.values);
      if (auto it = moved.find(c.binding); it != moved.end() && half_ > 0)
        for (size_t i = 0; i < values.size(); ++i)
          values[i] -= it->second[i];
      c.noise.include(distance(expected, values));
    }
    return Status();
  }

  Session &s_;
  const double half_;                               // the rounding error of 16-bit operands; 0: there are none
  const bool reproducible_;                         // the plan, and the sequential program
  std::unique_ptr<Replica> judge_, sampler_;        // set on rank 0 only; the sampler only where samples are needed
  std::map<int, std::vector<double>> held_, after_; // parameters and states before and after a step
  std::set<std::string> compressed_;                // parameters whose gradients are sent in fewer bits
  std::vector<Compared> all_;
  int64_t steps_ = 0;
  int stopped_ = 0;
};

} // namespace

Status verify(Session &s) {
  Verifier verifier(s);
  TESSERA_RETURN_IF_ERROR(verifier.start());
  const plan::Plan &plan = s.executor.plan();
  // Evaluation runs first, since it reads the weights that training then changes.
  for (const char *name : {"infer", "eval"})
    if (findProgram(plan, name) >= 0 && verifier.stopped() == 0)
      TESSERA_RETURN_IF_ERROR(verifier.run(name, false, 1));
  if (findProgram(plan, "train") >= 0 && verifier.stopped() == 0) {
    int64_t steps = s.options.steps > 0 ? s.options.steps : 3;
    TESSERA_RETURN_IF_ERROR(verifier.run("train", true, steps));
    if (s.leader())
      s.result.steps = steps;
  }
  if (s.leader())
    s.result.interrupted = verifier.stopped();
  if (verifier.stopped() == 0)
    verifier.report();
  return Status();
}

} // namespace tessera::rt
