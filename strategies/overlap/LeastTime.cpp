#include "strategies/overlap/LeastTime.h"

#include "strategies/time/Bound.h"

#include <algorithm>
#include <map>

namespace tessera::strategies {

using graph::DataFlow;

namespace {

constexpr double kRounding = 1e-9;

/// A section of a program: its steps, in dependence order.
class Part {
public:
  Part(const DataFlow &flow, const std::vector<LeastStep> &times, int links)
      : flow_(flow), times_(times), links_(links) {}

  void add(int step) {
    taskOf_[step] = int(steps_.size());
    steps_.push_back(step);
  }

  /// The least time of one run without what slows kernels down.
  int64_t bound() const { return std::max(lowerBound(tasks(least())), lowerBound(tasks(inChain()))); }

  /// The same, with it. Kernels and what delays them come one after the other. And where each message delays them by a
  /// part s of its time, a schedule that takes L without that has all messages M beside its kernels K but for L - K. So
  /// it takes L + s (M - (L - K)).
  int64_t bound(double slowing) const {
    int64_t best = 0;
    for (const std::vector<MessagePart> &parts : {least(), inChain()}) {
      MessagePart kernels, messages;
      for (size_t t = 0; t < steps_.size(); ++t) {
        MessagePart &sum = isKernel(steps_[t]) ? kernels : messages;
        sum.ns += parts[t].ns;
        sum.work += parts[t].work;
      }
      const int64_t bound = lowerBound(tasks(parts));
      const double slowed = (1 - slowing) * double(bound) + slowing * double(kernels.ns + messages.ns);
      best = std::max({best, bound, kernels.ns + messages.work, int64_t(slowed * (1 - kRounding))});
    }
    return best;
  }

private:
  const LeastStep &time(int step) const { return times_[size_t(step)]; }
  bool isKernel(int step) const { return time(step).link < 0; }
  MessagePart alone(int step) const { return {time(step).ns, time(step).work}; }

  /// By task how long it holds its resource: each collective has its part of a message.
  std::vector<MessagePart> least() const {
    std::vector<MessagePart> parts;
    for (int step : steps_)
      parts.push_back(isKernel(step) ? alone(step) : time(step).least);
    return parts;
  }

  /// The same: of each link, collectives that wait for each other have all of their time. They are in different
  /// messages, which others make longer.
  std::vector<MessagePart> inChain() const {
    std::vector<MessagePart> parts;
    for (int step : steps_)
      parts.push_back(isKernel(step) ? alone(step) : time(step).grows);
    for (int link = 0; link < links_; ++link)
      for (int task : longestChain(link))
        parts[size_t(task)] = alone(steps_[size_t(task)]);
    return parts;
  }

  /// Collectives of a link, each of which waits for the one before: those whose starts are the longest.
  std::vector<int> longestChain(int link) const {
    std::vector<int64_t> sum(steps_.size(), 0); // up to the task
    std::vector<int> before(steps_.size(), -1); // the task from which it comes
    int last = -1;
    for (size_t t = 0; t < steps_.size(); ++t) {
      for (const Need &need : makers(steps_[t]))
        if (before[t] < 0 || sum[size_t(need.task)] > sum[t]) {
          sum[t] = sum[size_t(need.task)];
          before[t] = need.task;
        }
      if (time(steps_[t]).link == link)
        sum[t] += time(steps_[t]).ns - time(steps_[t]).grows.ns;
      if (last < 0 || sum[t] > sum[size_t(last)])
        last = int(t);
    }
    std::vector<int> chain;
    for (; last >= 0; last = before[size_t(last)])
      if (time(steps_[size_t(last)]).link == link)
        chain.push_back(last);
    return chain;
  }

  /// The tasks that make what a step reads.
  std::vector<Need> makers(int step) const {
    std::vector<Need> needs;
    for (int value : flow_.steps[size_t(step)].reads)
      if (auto maker = taskOf_.find(flow_.values[size_t(value)].maker); maker != taskOf_.end())
        needs.push_back({maker->second});
    return needs;
  }

  TaskGraph tasks(const std::vector<MessagePart> &parts) const {
    TaskGraph graph;
    graph.resources.resize(size_t(links_) + 1);
    // What follows a collective waits for the rest of its time.
    auto wait = [&](Need need) {
      need.lag = time(steps_[size_t(need.task)]).ns - parts[size_t(need.task)].ns;
      return need;
    };
    Task end;
    for (size_t t = 0; t < steps_.size(); ++t) {
      Task &task = graph.tasks.emplace_back();
      task.duration = parts[t].ns;
      task.resources = {1 + time(steps_[t]).link};
      for (const Need &need : makers(steps_[t]))
        task.needs.push_back(wait(need));
      end.needs.push_back(wait({int(t)}));
    }
    graph.tasks.push_back(std::move(end));
    return graph;
  }

  const DataFlow &flow_;
  const std::vector<LeastStep> &times_;
  const int links_;
  std::vector<int> steps_;    // by task
  std::map<int, int> taskOf_; // by step
};

} // namespace

int64_t leastTime(const DataFlow &flow, const LeastSteps &steps) {
  int links = 0;
  for (const LeastStep &time : steps.times)
    links = std::max(links, time.link + 1);
  std::map<graph::Section, Part> parts;
  for (size_t s = 0; s < flow.steps.size(); ++s)
    parts.try_emplace(flow.steps[s].section, flow, steps.times, links).first->second.add(int(s));
  int64_t sum = 0;
  for (const auto &[section, part] : parts)
    // Overlap.h divides what is hidden among the sections, which says little of each where they run several times.
    sum += steps.runs > 1 ? (graph::inBody(section) ? steps.runs : 1) * part.bound() : part.bound(steps.slowing);
  return sum;
}

} // namespace tessera::strategies
