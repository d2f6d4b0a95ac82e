#include "strategies/pipeline/FindOrder.h"

#include "strategies/pipeline/Greedy.h"
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/OrderBound.h"

#include <algorithm>
#include <optional>
#include <random>

namespace tessera::strategies {

namespace {

// The rules that are tried: all combinations. Set by hand on the published pipelines (test/unit/pipeline). A stage with
// n stages behind it may have ahead * n + 1 + extra micro-batches between Forward and Input.
constexpr double kAhead[] = {0, 1, 1.5, 2, 2.5, 3, 1e9};
constexpr int kExtra[] = {0, 1, 3};
constexpr double kDelay[] = {0, 0.3, 0.6, 1};
constexpr double kForwardDelay[] = {1, 0.4};

// Then the best rules are changed a little, again and again.
constexpr double kTasksOfChanges = 2.5e6; // all runs together
constexpr size_t kStarts = 4;             // the best of the rules that were tried
constexpr int kLeastChanges = 60, kMostChanges = 1500;

class OrderSearch {
public:
  OrderSearch(const Pipeline &pipeline, Goal goal) : pipeline_(pipeline), goal_(goal) {}

  FoundOrder run() {
    best_.lowerBound = goal_ == Goal::Makespan ? makespanBound(pipeline_) : spanBound(pipeline_);
    for (NamedOrder &named : namedOrders(pipeline_))
      keep(std::move(named.order));
    const bool several = int(pipeline_.stages.size()) > pipeline_.devices;
    for (double ahead : kAhead)
      for (int extra : kExtra)
        for (double delay : kDelay)
          for (double forwardDelay : kForwardDelay)
            for (bool firstOnTime : {false, true})
              for (bool forwardFirst : {false, true})
                for (bool lastStageFirst : {false, true})
                  if (!proven() && (several || !lastStageFirst))
                    consider({mostOf(ahead, extra), delay, forwardDelay, firstOnTime, forwardFirst, lastStageFirst});
    improve();
    return std::move(best_);
  }

private:
  struct Tried {
    GreedyRules rules;
    int64_t value;
  };

  std::vector<int> mostOf(double ahead, int extra) const {
    std::vector<int> most;
    for (size_t behind = pipeline_.stages.size(); behind-- > 0;)
      most.push_back(int(std::clamp(ahead * double(behind) + 1 + extra, 1.0, double(pipeline_.microBatches))));
    return most;
  }
  void consider(GreedyRules rules) {
    if (const std::optional<int64_t> value = keep(greedyOrder(pipeline_, rules)))
      tried_.push_back({std::move(rules), *value});
  }

  /// Changes how far stages next to one another may run ahead.
  void improve() {
    std::stable_sort(tried_.begin(), tried_.end(), [](const Tried &a, const Tried &b) { return a.value < b.value; });
    tried_.resize(std::min(tried_.size(), kStarts));
    std::mt19937 random(1);
    for (Tried &start : std::vector<Tried>(std::move(tried_)))
      improve(std::move(start), random);
  }
  /// How many runs there may be if they are divided among `parts`.
  int changesOf(size_t parts) const {
    const double tasks = 3.0 * double(pipeline_.stages.size()) * pipeline_.microBatches;
    return int(std::clamp(kTasksOfChanges / double(parts) / tasks, double(kLeastChanges), double(kMostChanges)));
  }

  void improve(Tried from, std::mt19937 &random) {
    const int stages = int(pipeline_.stages.size());
    const int changes = changesOf(kStarts);
    for (int i = 0; i < changes && !proven(); ++i) {
      GreedyRules rules = from.rules;
      const int first = int(random() % unsigned(stages)), count = 1 + int(random() % unsigned(stages - first));
      const int by = random() % 2 ? 1 + int(random() % 2) : -1 - int(random() % 2);
      for (int s = first; s < first + count; ++s)
        rules.most[size_t(s)] = std::clamp(rules.most[size_t(s)] + by, 1, pipeline_.microBatches);
      if (random() % 4 == 0)
        rules.delay = 0.1 * double(random() % 11);
      if (random() % 4 == 0)
        rules.forwardDelay = 0.1 * double(random() % 11);
      const std::optional<int64_t> value = keep(greedyOrder(pipeline_, rules));
      if (value && *value <= from.value)
        from = {std::move(rules), *value};
    }
  }
  int64_t valueOf(const PipelineRun &run) const { return goal_ == Goal::Makespan ? run.makespan : run.longestSpan; }
  bool proven() const { return !best_.order.empty() && valueOf(best_.run) == best_.lowerBound; }

  /// Keeps an order that is the best so far. Returns its value, or nothing if it is none or does not fit.
  std::optional<int64_t> keep(PipelineOrder order) {
    if (order.empty())
      return std::nullopt;
    PipelineRun run = runInOrder(pipeline_, order);
    if (!run.error.empty() || !fits(pipeline_, run))
      return std::nullopt;
    const int64_t value = valueOf(run);
    if (best_.order.empty() || value < valueOf(best_.run)) {
      best_.order = std::move(order);
      best_.run = std::move(run);
    }
    return value;
  }

  const Pipeline &pipeline_;
  const Goal goal_;
  FoundOrder best_;
  std::vector<Tried> tried_;
};

} // namespace

FoundOrder findOrder(const Pipeline &pipeline, Goal goal) { return OrderSearch(pipeline, goal).run(); }

} // namespace tessera::strategies
