#include "compiler/pipeline/Estimate.h"

#include "compiler/pipeline/ForwardPass.h"

#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/stages/FindStages.h"

#include <numeric>

using namespace mlir;
using tessera::strategies::Cost;

namespace tessera::compiler {

namespace {

/// The efforts of an estimate's search for cuts, in the search's unit, which is roughly seconds, and the most downsets:
/// the best cut along an order of the network, not more. The next effort is for networks of which the one before finds
/// no cut.
constexpr double kEfforts[] = {0.03, 0.3, 3};
constexpr uint32_t kMostDownsets = 4000;
/// A step that takes so much more than its bound is not worth a search.
constexpr double kEnough = 5e-3;

class Estimator {
public:
  explicit Estimator(const StagesToPrice &priced) : priced_(priced), forward_(priced.func) {
    graph::FunctionFlow &program = forward_.parts.program;
    for (auto [v, value] : llvm::enumerate(program.tensors))
      if (value)
        program.flow.values[v].bytes = priced.bytes(value);
  }

  int64_t microBatches() const { return forward_.parts.program.parts; }

  /// Cuts the function for the places of an order. Returns whether it can be cut so. Orders with equally many stages on a
  /// device share the cut where both have room for it.
  bool cut(const PipelineOptions &options) {
    const int64_t devices = priced_.all.mesh().axisSize(0);
    const strategies::StagePlaces places = options.places(devices);
    std::vector<strategies::StagePlace> shared = placesOf(options, devices, microBatches());
    if (places.chunks != places_.chunks || (isCut_ && !hasRoomToo(shared))) {
      places_ = places;
      isCut_ = findCut(shared);
    }
    places_ = places;
    if (isCut_)
      addUp();
    return isCut_;
  }

  std::optional<StagesEstimate> inOrder(const PipelineOptions &options) const {
    StagesEstimate best{options, strategies::kForbidden, 0, 0, 0};
    if (!forward_.parts.hasBody) { // one stage after the other
      if (options.schedule != "auto")
        return std::nullopt;
      Cost busy = std::accumulate(once_.begin(), once_.end(), Cost(0));
      std::vector<int64_t> bytes;
      best.predicted = std::accumulate(pipeline_.transfers.begin(), pipeline_.transfers.end(), busy);
      for (size_t s = 0; s < pipeline_.stages.size(); ++s) {
        const strategies::PipelineStage &stage = pipeline_.stages[s];
        busy += stage.forward + stage.input + stage.weight;
        best.predicted += stage.forward + stage.input + stage.weight;
        bytes.push_back(fixed_[s] + stage.held);
      }
      setBytes(bytes, best);
      best.bubble = best.predicted > 0 ? 1 - double(busy) / (double(best.predicted) * double(fixed_.size())) : 0;
      return best;
    }
    std::vector<strategies::PipelineOrder> orders;
    if (options.schedule == "auto") {
      orders = {strategies::oneForwardOneBackward(pipeline_), strategies::zeroBubble1(pipeline_)};
    } else {
      for (strategies::NamedOrder &named : strategies::namedOrders(pipeline_))
        if (llvm::StringRef(options.schedule).split(':').first == named.name)
          orders.push_back(std::move(named.order));
    }
    for (const strategies::PipelineOrder &order : orders) {
      const strategies::PipelineRun run = strategies::runInOrder(pipeline_, order);
      if (!run.error.empty())
        continue;
      const strategies::PipelineStep step = strategies::stepOf(pipeline_, run, once_);
      if (step.time >= best.predicted)
        continue;
      best.predicted = step.time;
      best.bubble = step.bubble;
      std::vector<int64_t> bytes = fixed_;
      for (size_t d = 0; d < bytes.size(); ++d)
        bytes[d] += run.peak[d];
      setBytes(bytes, best);
    }
    return best.predicted < strategies::kForbidden ? std::optional(best) : std::nullopt;
  }

private:
  /// `bytes`: of each device.
  void setBytes(llvm::ArrayRef<int64_t> bytes, StagesEstimate &estimate) const {
    estimate.bytes = *llvm::max_element(bytes);
    estimate.mean = (std::accumulate(bytes.begin(), bytes.end(), int64_t(0)) + besides_) / int64_t(bytes.size());
  }

  /// Whether the cut fits these places as well.
  bool hasRoomToo(const std::vector<strategies::StagePlace> &shared) {
    problem_.places = shared;
    problem_.devices[0].memory = priced_.limit;
    return strategies::rateStages(problem_, plan_).error.empty();
  }

  bool findCut(std::vector<strategies::StagePlace> shared) {
    const PipelineCosts costs{priced_.all, priced_.all, priced_.limit, places_, {}, std::move(shared)};
    strategies::FoundStages found;
    for (bool anywhere : {false, true}) {
      problem_ = forward_.problem(priced_.times, costs, steps_, anywhere);
      if (int64_t(steps_.size()) < costs.stages() || !strategies::checkStageProblem(problem_).empty())
        return false;
      for (double work : kEfforts) {
        // The memory is an estimate, and the arena decides.
        found = strategies::findStages(
            problem_, {.work = work, .enough = kEnough, .mayExceed = true, .mostDownsets = kMostDownsets});
        if (!found.plan.empty() || found.infeasible)
          break;
      }
      if (!found.plan.empty())
        break;
    }
    if (found.plan.empty())
      return false;
    plan_ = std::move(found.plan);
    stageOf_.assign(problem_.nodes.size(), 0);
    for (auto [stage, part] : llvm::enumerate(plan_))
      for (int node : part.nodes)
        stageOf_[size_t(node)] = int(stage);
    return true;
  }

  /// The pipeline of the cut, and what a device has and does besides.
  void addUp() {
    pipeline_ = {};
    pipeline_.devices = places_.devices;
    pipeline_.microBatches = int(microBatches());
    pipeline_.limits.assign(size_t(places_.devices), -1);
    fixed_.assign(size_t(places_.devices), 0);
    once_.assign(size_t(places_.devices), 0);
    for (int s = 0; s < places_.stages(); ++s)
      pipeline_.stages.push_back({places_.deviceOf(s), 0, 0, 0, 0, 0});
    std::vector<int> node(forward_.parts.program.operators.size(), ForwardPass::kNone);
    for (auto [n, s] : llvm::enumerate(steps_)) {
      const strategies::StageVariant &variant = problem_.nodes[n].ways[0].variants[0];
      strategies::PipelineStage &stage = pipeline_.stages[size_t(stageOf_[n])];
      stage.forward += variant.forward;
      stage.input += variant.input;
      stage.weight += variant.weight;
      stage.held += variant.held;
      fixed_[size_t(stage.device)] += variant.fixed;
      node[size_t(s)] = int(n);
    }
    int64_t known = std::accumulate(fixed_.begin(), fixed_.end(), int64_t(0));
    for (const strategies::PipelineStage &stage : pipeline_.stages)
      known += stage.held;
    besides_ = std::max<int64_t>(0, priced_.peak - known);
    addOnce(node);
    addTransfers(node);
  }

  /// What runs once belongs to its operator's stage; updates to whoever has the parameters, by their bytes.
  void addOnce(llvm::ArrayRef<int> node) {
    Cost rest = 0;
    for (size_t s = 0; s < node.size(); ++s) {
      const int home = node[s] != ForwardPass::kNone                   ? node[s]
                       : forward_.homeOf(int(s)) != ForwardPass::kNone ? node[size_t(forward_.homeOf(int(s)))]
                                                                       : ForwardPass::kNone;
      if (home == ForwardPass::kNone)
        rest += priced_.times[s] + priced_.once[s];
      else
        once_[size_t(places_.deviceOf(stageOf_[size_t(home)]))] += priced_.once[s];
    }
    const double all = double(std::accumulate(fixed_.begin(), fixed_.end(), int64_t(0)));
    for (size_t d = 0; d < once_.size(); ++d)
      once_[d] += Cost(double(rest) * (all > 0 ? double(fixed_[d]) / all : 1.0 / double(once_.size())));
  }

  /// By step: where the cut leads to. The gradient of what several stages read lies in the first of them.
  std::vector<int> stagesOfSteps(llvm::ArrayRef<int> node) const {
    const ProgramParts &parts = forward_.parts;
    std::vector<int> stages(node.size(), kNoStage);
    for (int s : parts.order) {
      const int home = forward_.isForward(s) || parts.free[size_t(s)] ? s : forward_.homeOf(s);
      if (home == ForwardPass::kNone || node[size_t(home)] == ForwardPass::kNone)
        continue;
      int &stage = stages[size_t(s)];
      stage = stageOf_[size_t(node[size_t(home)])];
      if (home == s)
        continue;
      for (Value operand : forward_.operatorOf(s)->getOperands())
        if (const int maker = parts.makerOf(operand); maker >= 0 && parts.inBackwardBody(maker))
          if (const int at = stages[size_t(maker)]; at != kNoStage)
            stage = std::min(stage, at);
    }
    return stages;
  }

  /// As a plan has them (Calls.cpp): two stages wait for the largest message that one of them sends for a micro-batch.
  void addTransfers(llvm::ArrayRef<int> node) {
    const graph::DataFlow &flow = forward_.parts.program.flow;
    const std::vector<int> stages = stagesOfSteps(node);
    std::vector<int64_t> largest(pipeline_.stages.size(), 0);
    for (size_t s = 0; s < stages.size(); ++s) {
      if (stages[s] == kNoStage || (forward_.parts.hasBody && !forward_.parts.inBody(int(s))))
        continue;
      for (int value : flow.steps[s].makes)
        for (int reader : forward_.readersOf(value))
          if (size_t(reader) < stages.size() && stages[size_t(reader)] != kNoStage &&
              stages[size_t(reader)] != stages[s])
            largest[size_t(stages[s])] = std::max(largest[size_t(stages[s])], flow.values[size_t(value)].bytes);
    }
    const PipelineCosts costs{priced_.all, priced_.all, 0, places_};
    for (size_t s = 0; s + 1 < pipeline_.stages.size(); ++s)
      pipeline_.transfers.push_back(pipeline_.stages[s].device == pipeline_.stages[s + 1].device
                                        ? 0
                                        : costs.message(std::max(largest[s], largest[s + 1])));
  }

  const StagesToPrice &priced_;
  ForwardPass forward_;
  strategies::StagePlaces places_{0, 0, false};
  strategies::StageProblem problem_;
  strategies::StagePlan plan_;
  bool isCut_ = false;
  std::vector<int> steps_;   // by node
  std::vector<int> stageOf_; // by node
  strategies::Pipeline pipeline_;
  std::vector<int64_t> fixed_; // by device: bytes of parameters, states and sums
  std::vector<Cost> once_;     // by device
  int64_t besides_ = 0;        // bytes of one micro-batch in all stages that neither these have nor a stage holds
};

} // namespace

int64_t mostStages(func::FuncOp func) {
  const ForwardPass forward(func);
  return llvm::count_if(forward.parts.order, [&](int s) { return forward.isForward(s); });
}

Cost longestForOne(func::FuncOp func, llvm::ArrayRef<Cost> times) {
  const ForwardPass forward(func);
  std::vector<Cost> sums(times.size(), 0);
  for (size_t s = 0; s < times.size(); ++s)
    if (forward.isForward(int(s)))
      sums[s] += times[s];
    else if (const int home = forward.homeOf(int(s)); home != ForwardPass::kNone)
      sums[size_t(home)] += times[s];
  return sums.empty() ? 0 : *llvm::max_element(sums);
}

std::vector<StagesEstimate> estimateStages(const StagesToPrice &priced, llvm::ArrayRef<std::string> schedules) {
  std::vector<StagesEstimate> found;
  Estimator estimator(priced);
  const int64_t devices = priced.all.mesh().axisSize(0);
  for (const std::string &schedule : schedules) {
    PipelineOptions options = llvm::cantFail(parsePipeline("schedule=" + schedule));
    if (llvm::Error refused = completePipeline(options, devices, estimator.microBatches())) {
      llvm::consumeError(std::move(refused));
      continue;
    }
    if (options.schedule != "auto" && !found.empty() &&
        double(found.front().predicted) * (1 - found.front().bubble) >= double(priced.most))
      break;
    if (!estimator.cut(options))
      continue;
    if (std::optional<StagesEstimate> one = estimator.inOrder(options))
      found.push_back(std::move(*one));
  }
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.predicted < b.predicted; });
  return found;
}

} // namespace tessera::compiler
