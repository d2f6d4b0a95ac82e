#include "strategies/overlap/Overlap.h"

#include "dialects/graph/flow/Order.h"
#include "strategies/time/Paths.h"
#include "strategies/time/Schedule.h"
#include "strategies/time/Simulate.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::strategies {

namespace {

using graph::DataFlow;

/// Of so many kinds of links each may be sent in line; the others are beside kernels.
constexpr size_t kMostLinks = 3;

enum Resource { Processor, Lane, FirstLink };

int64_t runsOf(const DataFlow &flow, const OverlapRule &rule, int step) {
  return graph::inBody(flow.steps[size_t(step)].section) ? rule.runs : 1;
}

/// A program's steps as tasks, in today's order of execution. Behind them are tasks without duration: the start, the
/// end of each section, and the end.
class Program {
public:
  Program(const DataFlow &flow, const OverlapRule &rule)
      : flow_(flow), rule_(rule), steps_(graph::executionOrder(flow)), taskOf_(flow.steps.size()) {
    for (auto [t, step] : llvm::enumerate(steps_))
      taskOf_[size_t(step)] = int(t);
    addTasks();
    addSections();
    addBuffers();
    const std::string wrong = checkTaskGraph(graph_);
    fits_ = wrong.empty();
    assert((fits_ || rule.room >= 0) && "a graph that is wrong, not one in which a step alone takes too much");
  }

  /// The kinds of links.
  std::set<int> links() const {
    std::set<int> links;
    for (const StepTime &time : rule_.times)
      if (time.link >= 0)
        links.insert(time.link);
    return links;
  }

  /// The best of some schedules with the collectives of `besideLinks` beside kernels, if it takes less than `than`.
  std::optional<Overlap> schedule(const std::set<int> &besideLinks, int64_t than) {
    for (auto [t, step] : llvm::enumerate(steps_))
      graph_.tasks[t].resources = resourcesOf(step, besideLinks);
    if (!fits_ || least() >= than)
      return std::nullopt;
    std::optional<Overlap> best;
    StartTimes bestStart;
    auto keep = [&](const StartTimes &start) {
      if (total(timesOf(start)) >= than) // without what slows kernels down
        return;
      Overlap found = timed(start, besideLinks);
      if (found.predicted >= than)
        return;
      than = found.predicted;
      best = std::move(found);
      bestStart = start;
    };
    Decoder decoder(graph_);
    // The schedules that keep more in memory come later. Of equal ones the first is taken.
    Orders orders(graph_.resources.size());
    std::vector<int64_t> place(graph_.tasks.size(), 0);
    for (size_t t = 0; t < steps_.size(); ++t) {
      place[t] = -int64_t(t);
      for (int resource : graph_.tasks[t].resources)
        orders[size_t(resource)].push_back(int(t));
    }
    if (decoder.run(orders))
      keep(decoder.start());
    const std::vector<int64_t> paths = longestPaths(graph_).tail;
    // What is sent early may leave too little memory for what would free some.
    for (const std::vector<int64_t> &priorities : {place, paths})
      if (decoder.greedy(priorities) || (rule_.room >= 0 && decoder.cautious(priorities, taskOrder(graph_))))
        keep(decoder.start());
    if (decoder.run(insertedOrders(graph_, paths)))
      keep(decoder.start());
    if (best)
      layOut(bestStart, *best);
    return best;
  }

private:
  /// What no schedule takes less than: a section has the tasks of each resource one after the other.
  int64_t least() const {
    std::vector<SectionTime> times;
    std::vector<int64_t> busy(graph_.resources.size());
    for (size_t t = 0; const SectionMarks &marks : sections_) {
      std::fill(busy.begin(), busy.end(), 0);
      for (; t < steps_.size() && flow_.steps[size_t(steps_[t])].section == marks.section; ++t)
        for (int resource : graph_.tasks[t].resources)
          busy[size_t(resource)] += graph_.tasks[t].duration;
      times.push_back({marks.section, *std::max_element(busy.begin(), busy.end())});
    }
    return total(times);
  }

  std::vector<int> resourcesOf(int step, const std::set<int> &besideLinks) const {
    const StepTime &time = rule_.times[size_t(step)];
    if (time.link < 0)
      return time.ns == 0 ? std::vector<int>() : std::vector<int>{Processor};
    return {besideLinks.count(time.link) ? Lane : Processor, FirstLink + time.link};
  }

  void addTasks() {
    graph_.resources = {"processor", "communication"};
    for (int link : links())
      while (int(graph_.resources.size()) <= FirstLink + link)
        graph_.resources.push_back("link " + std::to_string(graph_.resources.size() - FirstLink));
    graph_.pools = {{"memory", rule_.room}};
    for (int step : steps_) {
      Task &task = graph_.tasks.emplace_back();
      task.duration = rule_.times[size_t(step)].ns;
      llvm::SmallVector<int> makers;
      for (int value : flow_.steps[size_t(step)].reads)
        if (const int maker = flow_.values[size_t(value)].maker; maker >= 0)
          makers.push_back(taskOf_[size_t(maker)]);
      sortUnique(makers);
      for (int maker : makers)
        task.needs.push_back({maker, 0});
    }
  }

  int addMark(const char *name, llvm::ArrayRef<int> needs) {
    Task &task = graph_.tasks.emplace_back();
    task.name = name;
    for (int other : needs)
      task.needs.push_back({other, 0});
    return int(graph_.tasks.size()) - 1;
  }

  void addSections() {
    start_ = addMark("start", {});
    int before = start_;
    for (size_t t = 0; t < steps_.size();) {
      const graph::Section section = flow_.steps[size_t(steps_[t])].section;
      std::vector<int> members;
      for (; t < steps_.size() && flow_.steps[size_t(steps_[t])].section == section; ++t) {
        members.push_back(int(t));
        graph_.tasks[t].needs.push_back({before, 0});
      }
      const int end = addMark("end of a section", members);
      sections_.push_back({section, before, end});
      before = end;
    }
    end_ = addMark("end", {before});
  }

  /// Values live as graph::lifetimes says: what the body reads and does not make until its end, and a sum over
  /// micro-batches from its start on.
  void addBuffers() {
    struct Life {
      int maker = -1; // nothing of it is alive
      llvm::SmallVector<int> users;
    };
    std::vector<Life> lives(flow_.values.size()); // by root
    std::optional<std::pair<int, int>> body;      // begin and end
    for (const SectionMarks &marks : sections_)
      if (graph::inBody(marks.section))
        body = {body ? body->first : marks.begin, marks.end};
    auto maker = [&](int root) {
      const DataFlow::Value &value = flow_.values[size_t(root)];
      return value.maker < 0 ? start_ : value.sum && body ? body->first : taskOf_[size_t(value.maker)];
    };
    auto use = [&](int value, int task) {
      const int root = flow_.root(value);
      if (flow_.values[size_t(root)].kept)
        return;
      Life &life = lives[size_t(root)];
      if (life.maker < 0)
        life.maker = maker(root);
      if (task != life.maker)
        life.users.push_back(task);
    };
    auto madeInBody = [&](int root) {
      const int step = flow_.values[size_t(root)].maker;
      return step >= 0 && graph::inBody(flow_.steps[size_t(step)].section);
    };
    for (auto [t, step] : llvm::enumerate(steps_)) {
      for (int value : flow_.steps[size_t(step)].makes) {
        use(value, int(t));
        if (body && flow_.values[size_t(value)].sum)
          use(value, body->second);
      }
      for (int value : flow_.steps[size_t(step)].reads)
        use(value,
            graph::inBody(flow_.steps[size_t(step)].section) && !madeInBody(flow_.root(value)) ? body->second : int(t));
    }
    for (int value : flow_.results)
      use(value, end_);
    std::vector<size_t> sorted; // needs of each task, by task; what follows is not
    for (const Task &task : graph_.tasks)
      sorted.push_back(task.needs.size());
    for (auto [root, life] : llvm::enumerate(lives)) {
      if (life.maker < 0)
        continue;
      sortUnique(life.users);
      graph_.buffers.push_back({0, flow_.values[root].bytes, life.maker, false, {}});
      for (int user : life.users) {
        graph_.buffers.back().users.push_back(user);
        std::vector<Need> &needs = graph_.tasks[size_t(user)].needs;
        const auto more = needs.begin() + int64_t(sorted[size_t(user)]);
        auto isBefore = [](const Need &need, int task) { return need.task < task; };
        auto isMaker = [maker = life.maker](const Need &need) { return need.task == maker; };
        const auto at = std::lower_bound(needs.begin(), more, life.maker, isBefore);
        if ((at == more || !isMaker(*at)) && std::none_of(more, needs.end(), isMaker))
          needs.push_back({life.maker, 0});
      }
    }
  }

  static void sortUnique(llvm::SmallVector<int> &list) {
    llvm::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  std::vector<SectionTime> timesOf(const StartTimes &start) const {
    std::vector<SectionTime> times;
    for (const SectionMarks &marks : sections_)
      times.push_back({marks.section, start[size_t(marks.end)] - start[size_t(marks.begin)]});
    return times;
  }

  int64_t total(llvm::ArrayRef<SectionTime> sections) const {
    int64_t sum = 0;
    for (const SectionTime &time : sections)
      sum += time.ns * (graph::inBody(time.section) ? rule_.runs : 1);
    return sum;
  }

  /// The schedule's order, and the memory that it takes.
  void layOut(const StartTimes &start, Overlap &found) const {
    const Timeline line = simulate(graph_, start);
    assert(line.error.empty());
    found.peakBytes = line.peak[0];
    std::vector<int> tasks(steps_.size());
    for (size_t t = 0; t < tasks.size(); ++t)
      tasks[t] = int(t);
    std::stable_sort(tasks.begin(), tasks.end(), [&](int a, int b) { return start[size_t(a)] < start[size_t(b)]; });
    for (int t : tasks)
      found.order.push_back(steps_[size_t(t)]);
  }

  /// What it takes, and what runs beside kernels.
  Overlap timed(const StartTimes &start, const std::set<int> &besideLinks) const {
    Overlap found;
    int64_t kernels = 0, busy = 0;
    std::map<graph::Section, double> work; // of one run of what runs beside kernels
    found.beside.assign(flow_.steps.size(), false);
    for (auto [step, time] : llvm::enumerate(rule_.times)) {
      const int64_t all = time.ns * runsOf(flow_, rule_, int(step));
      found.beside[step] = time.link >= 0 && besideLinks.count(time.link);
      if (time.link < 0)
        kernels += all;
      else if (found.beside[step])
        work[flow_.steps[step].section] += time.work * double(time.ns);
      if (found.beside[step])
        busy += time.ns;
    }
    found.sections = timesOf(start);
    found.exposed = total(found.sections) - kernels;
    if (busy > 0) {
      const auto hidden = double(busy - strategies::exposed(graph_, start, Lane, Processor));
      for (SectionTime &time : found.sections)
        time.ns += int64_t(work[time.section] * hidden / double(busy));
    }
    found.predicted = total(found.sections);
    return found;
  }

  struct SectionMarks {
    graph::Section section;
    int begin, end; // tasks
  };

  const DataFlow &flow_;
  const OverlapRule &rule_;
  const std::vector<int> steps_; // by task
  std::vector<int> taskOf_;      // by step
  TaskGraph graph_;
  bool fits_ = true; // each step alone
  int start_ = 0, end_ = 0;
  std::vector<SectionMarks> sections_;
};

} // namespace

std::optional<Overlap> overlap(const DataFlow &flow, const OverlapRule &rule, int64_t than) {
  Program program(flow, rule);
  const std::set<int> links = program.links();
  std::optional<Overlap> best;
  for (unsigned left = (1u << std::min(links.size(), kMostLinks)); left-- > 1;) {
    std::set<int> beside;
    for (auto [i, link] : llvm::enumerate(links))
      if (i >= kMostLinks || (left >> i & 1))
        beside.insert(link);
    if (std::optional<Overlap> found = program.schedule(beside, best ? best->predicted : than))
      best = std::move(found);
  }
  return best;
}

int64_t inLine(const DataFlow &flow, const OverlapRule &rule) {
  int64_t sum = 0;
  for (auto [step, time] : llvm::enumerate(rule.times))
    sum += time.ns * runsOf(flow, rule, int(step));
  return sum;
}

} // namespace tessera::strategies
