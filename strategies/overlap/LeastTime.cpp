#include "strategies/overlap/LeastTime.h"

#include "strategies/overlap/Divide.h"
#include "strategies/time/Bound.h"
#include "strategies/time/RaisePaths.h"

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
    std::vector<int> &makers = makers_.emplace_back();
    for (int value : flow_.steps[size_t(step)].reads)
      if (auto maker = taskOf_.find(flow_.values[size_t(value)].maker); maker != taskOf_.end())
        makers.push_back(maker->second);
    taskOf_[step] = int(steps_.size());
    steps_.push_back(step);
  }

  /// The least time of one run without what slows kernels down.
  int64_t bound(bool divide) const {
    const Chains chains = longestChains();
    const std::vector<MessagePart> chain = inChain(chains);
    const TaskGraph graph = tasks(chain);
    const Paths paths = raisedPaths(graph);
    const int64_t bound = std::max(lowerBound(tasks(least())), lowerBound(graph, paths));
    return divide ? std::max(bound, int64_t(divided(chains, chain, paths, bound, 0))) : bound;
  }

  /// The same, with it. Kernels and what delays them come one after the other. And where each message delays them by a
  /// part s of its time, a schedule that takes L without that has all messages M beside its kernels K but for L - K. So
  /// it takes L + s (M - (L - K)).
  int64_t bound(double slowing, bool divide) const {
    const Chains chains = longestChains();
    int64_t best = 0;
    for (const bool chained : {false, true}) {
      const std::vector<MessagePart> parts = chained ? inChain(chains) : least();
      MessagePart kernels, messages;
      for (size_t t = 0; t < steps_.size(); ++t) {
        MessagePart &sum = isKernel(steps_[t]) ? kernels : messages;
        sum.ns += parts[t].ns;
        sum.work += parts[t].work;
      }
      const TaskGraph graph = tasks(parts);
      const Paths paths = raisedPaths(graph);
      const int64_t bound = lowerBound(graph, paths);
      // Starts besides those in `chain`, and what the fewer of them hold up, are more than the least of each.
      const double line =
          divide && chained ? divided(chains, parts, paths, bound, slowing) : (1 - slowing) * double(bound);
      const double slowed = line + slowing * double(kernels.ns + messages.ns);
      best = std::max({best, bound, kernels.ns + messages.work, int64_t(slowed * (1 - kRounding))});
    }
    return best;
  }

private:
  using Chains = std::vector<std::vector<int>>; // by link: longestChain

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
  std::vector<MessagePart> inChain(const Chains &chains) const {
    std::vector<MessagePart> parts;
    for (int step : steps_)
      parts.push_back(isKernel(step) ? alone(step) : time(step).grows);
    for (const std::vector<int> &chain : chains)
      for (int task : chain)
        parts[size_t(task)] = alone(steps_[size_t(task)]);
    return parts;
  }

  /// What the start of a message takes.
  int64_t startOf(int task) const {
    const LeastStep &step = time(steps_[size_t(task)]);
    return step.ns - step.grows.ns;
  }

  /// Collectives of a link, each of which waits for the one before: those whose starts are the longest.
  std::vector<int> longestChain(int link) const {
    std::vector<int64_t> sum(steps_.size(), 0); // up to the task
    std::vector<int> before(steps_.size(), -1); // the task from which it comes
    int last = -1;
    for (size_t t = 0; t < steps_.size(); ++t) {
      for (int maker : makers_[t])
        if (before[t] < 0 || sum[size_t(maker)] > sum[t]) {
          sum[t] = sum[size_t(maker)];
          before[t] = maker;
        }
      if (time(steps_[t]).link == link)
        sum[t] += startOf(int(t));
      if (last < 0 || sum[t] > sum[size_t(last)])
        last = int(t);
    }
    std::vector<int> chain;
    for (; last >= 0; last = before[size_t(last)])
      if (time(steps_[size_t(last)]).link == link)
        chain.push_back(last);
    return chain;
  }

  Chains longestChains() const {
    Chains chains;
    for (int link = 0; link < links_; ++link)
      chains.push_back(longestChain(link));
    return chains;
  }

  /// The most that Divide.h says of a link: behind the least of all divisions, and besides the starts in `chains`.
  /// `parts` and `paths`: of the graph in which chains have all of their time.
  double divided(const Chains &chains, const std::vector<MessagePart> &parts, const Paths &paths, int64_t least,
                 double slowing) const {
    double most = (1 - slowing) * double(least);
    for (int link = 0; link < links_; ++link) {
      DividedLink problem = toDivide(link, chains[size_t(link)], parts, paths);
      problem.least = least;
      problem.slowing = slowing;
      most = std::max(most, leastDivided(problem));
    }
    return most;
  }

  /// Calls `visit` with the tasks that neither wait for `task` nor are waited for by it.
  template <typename Visit> void forEachBeside(int task, Visit visit) const {
    std::vector<bool> after(steps_.size(), false), ahead(steps_.size(), false);
    after[size_t(task)] = ahead[size_t(task)] = true;
    for (size_t t = size_t(task) + 1; t < steps_.size(); ++t)
      after[t] = std::any_of(makers_[t].begin(), makers_[t].end(), [&](int maker) { return after[size_t(maker)]; });
    for (size_t t = size_t(task) + 1; t-- > 0;)
      if (ahead[t])
        for (int maker : makers_[t])
          ahead[size_t(maker)] = true;
    for (size_t t = 0; t < steps_.size(); ++t)
      if (!after[t] && !ahead[t])
        visit(t);
  }

  /// The collectives of a link that take the longest.
  std::vector<int> longest(int link) const {
    std::vector<int> tasks;
    for (size_t t = 0; t < steps_.size(); ++t)
      if (time(steps_[t]).link == link)
        tasks.push_back(int(t));
    auto longer = [&](int a, int b) { return time(steps_[size_t(a)]).ns > time(steps_[size_t(b)]).ns; };
    std::stable_sort(tasks.begin(), tasks.end(), longer);
    tasks.resize(std::min(tasks.size(), kMostDivided));
    return tasks;
  }

  DividedLink toDivide(int link, const std::vector<int> &chain, const std::vector<MessagePart> &parts,
                       const Paths &paths) const {
    const std::vector<int> chosen = longest(link);
    const size_t size = steps_.size();
    std::vector<CollectiveSet> is(size, 0), behind(size, 0), before(size, 0);
    for (size_t i = 0; i < chosen.size(); ++i)
      is[size_t(chosen[i])] = CollectiveSet(1) << i;
    std::vector<int64_t> tail(size, 0);
    for (size_t t = 0; t < size; ++t)
      for (int maker : makers_[t]) {
        behind[t] |= behind[size_t(maker)] | is[size_t(maker)];
        tail[size_t(maker)] = std::max(tail[size_t(maker)], paths.tail[t]);
      }
    for (size_t t = size; t-- > 0;)
      for (int maker : makers_[t])
        before[size_t(maker)] |= before[t] | is[t];
    DividedLink problem;
    for (int task : chosen) {
      const auto t = size_t(task);
      problem.collectives.push_back(
          {startOf(task), time(steps_[t]).grows.ns, paths.head[t], tail[t], false, 0, behind[t]});
    }
    std::vector<bool> isFree(size, true); // shares no message with the chain but with chosen ones of it
    for (int task : chain) {
      const auto t = size_t(task);
      isFree[t] = false;
      for (size_t i = 0; i < chosen.size(); ++i)
        if (chosen[i] == task)
          problem.collectives[i].isCounted = true;
        else if (is[t] == 0 && ((before[t] | behind[t]) >> i & 1) == 0)
          problem.collectives[i].paid = std::max(problem.collectives[i].paid, startOf(task));
      if (is[t] == 0)
        forEachBeside(task, [&](size_t other) { isFree[other] = false; });
    }
    std::vector<int> others;
    for (size_t t = 0; t < size; ++t)
      if (time(steps_[t]).link == link && is[t] == 0 && isFree[t])
        others.push_back(int(t));
    auto later = [&](int a, int b) { return paths.head[size_t(a)] > paths.head[size_t(b)]; };
    std::stable_sort(others.begin(), others.end(), later);
    std::vector<size_t> other(size, kNoOther); // the first one that the task waits for
    for (size_t i = 0; i < others.size(); ++i) {
      const auto t = size_t(others[i]);
      problem.others.push_back({startOf(others[i]), paths.head[t], tail[t]});
    }
    for (size_t t = 0; t < size; ++t)
      for (int maker : makers_[t]) {
        const auto at = std::find(others.begin(), others.end(), maker);
        other[t] =
            std::min({other[t], other[size_t(maker)], at == others.end() ? kNoOther : size_t(at - others.begin())});
      }
    for (size_t t = 0; t < size; ++t)
      if (isKernel(steps_[t]) && ((before[t] | behind[t]) != 0 || other[t] != kNoOther))
        problem.kernels.push_back(
            {parts[t].ns, paths.head[t], paths.tail[t] - parts[t].ns, before[t], behind[t], other[t]});
    return problem;
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
      for (int maker : makers_[t])
        task.needs.push_back(wait({maker}));
      end.needs.push_back(wait({int(t)}));
    }
    graph.tasks.push_back(std::move(end));
    return graph;
  }

  const DataFlow &flow_;
  const std::vector<LeastStep> &times_;
  const int links_;
  std::vector<int> steps_;               // by task
  std::vector<std::vector<int>> makers_; // by task: those of what it reads
  std::map<int, int> taskOf_;            // by step
};

} // namespace

int64_t leastTime(const DataFlow &flow, const LeastSteps &steps, bool divide) {
  int links = 0;
  for (const LeastStep &time : steps.times)
    links = std::max(links, time.link + 1);
  std::map<graph::Section, Part> parts;
  for (size_t s = 0; s < flow.steps.size(); ++s)
    parts.try_emplace(flow.steps[s].section, flow, steps.times, links).first->second.add(int(s));
  int64_t sum = 0;
  for (const auto &[section, part] : parts)
    // Overlap.h divides what is hidden among the sections, which says little of each where they run several times.
    sum += steps.runs > 1 ? (graph::inBody(section) ? steps.runs : 1) * part.bound(divide)
                          : part.bound(steps.slowing, divide);
  return sum;
}

} // namespace tessera::strategies
