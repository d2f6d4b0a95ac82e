#include "strategies/pipeline/Greedy.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace tessera::strategies {

namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

class Greedy {
public:
  Greedy(const Pipeline &pipeline, const GreedyRules &rules)
      : pipeline_(pipeline), rules_(rules), states_(pipeline.stages.size()), devices_(size_t(pipeline.devices)),
        order_(size_t(pipeline.devices)) {
    for (int s = 0; s < stages(); ++s) {
      State &state = states_[size_t(s)];
      state.forwardReady.assign(size_t(pipeline.microBatches), s == 0 ? 0 : kUnknown);
      state.inputReady.assign(size_t(pipeline.microBatches), kUnknown);
      devices_[size_t(pipeline.stages[size_t(s)].device)].stages.push_back(s);
    }
    growth_.assign(devices_.size(), 0);
    for (const PipelineStage &at : pipeline.stages)
      growth_[size_t(at.device)] = std::max(growth_[size_t(at.device)], at.kept - at.held);
    int64_t there = 0; // the first micro-batch, if nothing delays it
    for (int s = 0; s < stages(); ++s)
      there += stage(s).forward + (s > 0 ? pipeline.transfers[size_t(s) - 1] : 0);
    earliest_.assign(states_.size(), there);
    for (int s = stages() - 2; s >= 0; --s)
      earliest_[size_t(s)] = earliest_[size_t(s) + 1] + stage(s + 1).input + pipeline.transfers[size_t(s)];
  }

  PipelineOrder run() {
    for (int d = 0; d < pipeline_.devices; ++d)
      wakes_.push({0, d});
    while (!wakes_.empty()) {
      const auto [time, d] = wakes_.top();
      wakes_.pop();
      Device &device = devices_[size_t(d)];
      if (time < device.free || time <= device.seen)
        continue; // it is busy, and will be woken when it ends
      device.seen = time;
      decide(d, time);
    }
    if (left_ > 0)
      return {};
    return std::move(order_);
  }

private:
  struct State {
    int forward = 0, input = 0, weight = 0;        // how many have begun
    std::vector<int64_t> forwardReady, inputReady; // by micro-batch
  };
  struct Device {
    std::vector<int> stages;
    int64_t free = 0, seen = -1, held = 0;
  };

  int stages() const { return int(pipeline_.stages.size()); }
  const PipelineStage &stage(int s) const { return pipeline_.stages[size_t(s)]; }

  bool fits(int d, int64_t more) const {
    const int64_t limit = pipeline_.limits[size_t(d)];
    return limit < 0 || more <= 0 || devices_[size_t(d)].held + more <= limit;
  }
  int64_t forwardReady(int s) const {
    const State &state = states_[size_t(s)];
    return state.forward < pipeline_.microBatches ? state.forwardReady[size_t(state.forward)] : kUnknown;
  }
  int64_t inputReady(int s) const {
    const State &state = states_[size_t(s)];
    return state.input < pipeline_.microBatches ? state.inputReady[size_t(state.input)] : kUnknown;
  }
  bool mayForward(int s) const {
    const State &state = states_[size_t(s)];
    return state.forward - state.input < rules_.most[size_t(s)] &&
           fits(stage(s).device, stage(s).held + growth_[size_t(stage(s).device)]);
  }
  bool mayInput(int s) const { return fits(stage(s).device, stage(s).kept - stage(s).held); }

  /// Whether an action that begins now delays what is ready at `next` by more than a part of itself.
  static bool delays(int64_t duration, double part, int64_t now, int64_t next) {
    return next != kUnknown && double(next - now) < (1 - part) * double(duration);
  }

  /// When Input of the first micro-batch can begin on a device at the earliest, if that is still to come.
  int64_t firstInput(int d, int64_t now) const {
    int64_t first = kUnknown;
    for (int s : devices_[size_t(d)].stages)
      if (states_[size_t(s)].input == 0 && earliest_[size_t(s)] > now)
        first = std::min(first, earliest_[size_t(s)]);
    return first;
  }

  void decide(int d, int64_t now) {
    int forward = -1, input = -1, weight = -1;
    int64_t next = kUnknown, nextInput = kUnknown;
    auto forwardKey = [&](int s) {
      const int j = states_[size_t(s)].forward;
      return rules_.lastStageFirst ? std::pair(-s, j) : std::pair(j / pipeline_.devices, s);
    };
    auto inputKey = [&](int s) { return std::pair(states_[size_t(s)].input / pipeline_.devices, -s); };
    for (int s : devices_[size_t(d)].stages) {
      if (const int64_t ready = forwardReady(s); ready != kUnknown && mayForward(s)) {
        if (ready > now)
          next = std::min(next, ready);
        else if (forward < 0 || forwardKey(s) < forwardKey(forward))
          forward = s;
      }
      if (const int64_t ready = inputReady(s); ready != kUnknown && mayInput(s)) {
        if (ready > now)
          nextInput = std::min(nextInput, ready);
        else if (input < 0 || inputKey(s) < inputKey(input))
          input = s;
      }
      if (states_[size_t(s)].weight < states_[size_t(s)].input &&
          (weight < 0 || states_[size_t(s)].weight < states_[size_t(weight)].weight))
        weight = s;
    }
    next = std::min(next, nextInput);
    if (forward >= 0 && (delays(stage(forward).forward, rules_.forwardDelay, now, nextInput) ||
                         (rules_.firstOnTime && delays(stage(forward).forward, 0, now, firstInput(d, now)))))
      forward = -1;
    if (input >= 0 && !(rules_.forwardFirst && forward >= 0))
      begin({Action::Input, input, states_[size_t(input)].input++}, now);
    else if (forward >= 0)
      begin({Action::Forward, forward, states_[size_t(forward)].forward++}, now);
    else if (weight >= 0 && !delays(stage(weight).weight, rules_.delay, now, next))
      begin({Action::Weight, weight, states_[size_t(weight)].weight++}, now);
    else if (next != kUnknown)
      wakes_.push({next, d}); // what is not known yet wakes the device when it is
  }

  void begin(PipelineTask task, int64_t now) {
    const PipelineStage &at = stage(task.stage);
    Device &device = devices_[size_t(at.device)];
    order_[size_t(at.device)].push_back(task);
    --left_;
    const size_t j = size_t(task.microBatch), s = size_t(task.stage);
    switch (task.action) {
    case Action::Forward:
      device.free = now + at.forward;
      device.held += at.held;
      if (task.stage + 1 < stages())
        tell(states_[s + 1].forwardReady[j], device.free + pipeline_.transfers[s], task.stage + 1);
      else
        tell(states_[s].inputReady[j], device.free, task.stage);
      break;
    case Action::Input:
      device.free = now + at.input;
      device.held += at.kept - at.held;
      if (task.stage > 0)
        tell(states_[s - 1].inputReady[j], device.free + pipeline_.transfers[s - 1], task.stage - 1);
      break;
    case Action::Weight:
      device.free = now + at.weight;
      device.held -= at.kept;
      break;
    }
    device.seen = -1; // an action may take no time
    wakes_.push({device.free, at.device});
  }

  void tell(int64_t &ready, int64_t time, int s) {
    ready = time;
    devices_[size_t(stage(s).device)].seen = -1; // it may be ready at this very instant
    wakes_.push({time, stage(s).device});
  }

  const Pipeline &pipeline_;
  const GreedyRules &rules_;
  std::vector<State> states_;
  std::vector<int64_t> growth_;   // by device: what an Input action may need beyond what its Forward action took
  std::vector<int64_t> earliest_; // Input of the first micro-batch, by stage
  std::vector<Device> devices_;
  PipelineOrder order_;
  using Wake = std::pair<int64_t, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  int64_t left_ = int64_t(pipeline_.stages.size()) * pipeline_.microBatches * 3;
};

} // namespace

PipelineOrder greedyOrder(const Pipeline &pipeline, const GreedyRules &rules) { return Greedy(pipeline, rules).run(); }

} // namespace tessera::strategies
