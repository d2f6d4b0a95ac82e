#include "tools/dump/PlanTasks.h"

#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>

namespace tessera {

using strategies::Need;
using strategies::Task;
using strategies::TaskGraph;

namespace {

/// Who wrote bytes of the arena last, and who has read them since.
class Bytes {
public:
  /// Adds to `needs` what must have ended before `step` reads the bytes.
  void read(uint64_t begin, uint64_t end, uint32_t step, std::set<uint32_t> &needs) {
    split(begin);
    split(end);
    for (auto piece = pieces_.lower_bound(begin); begin < end; ++piece) {
      if (piece == pieces_.end() || piece->first > begin) // nobody has used them
        piece = pieces_.emplace(begin, Piece{piece == pieces_.end() ? end : std::min(end, piece->first), {}, {}}).first;
      needs.insert(piece->second.writers.begin(), piece->second.writers.end());
      piece->second.readers.insert(step);
      begin = piece->second.end;
    }
  }

  /// The same for bytes that `step` writes.
  void write(uint64_t begin, uint64_t end, uint32_t step, std::set<uint32_t> &needs) {
    split(begin);
    split(end);
    auto piece = pieces_.lower_bound(begin);
    while (piece != pieces_.end() && piece->first < end) {
      needs.insert(piece->second.writers.begin(), piece->second.writers.end());
      needs.insert(piece->second.readers.begin(), piece->second.readers.end());
      piece = pieces_.erase(piece);
    }
    pieces_[begin] = {end, {step}, {}};
  }

private:
  struct Piece {
    uint64_t end = 0;
    std::set<uint32_t> writers, readers; // one writer at most
  };

  /// No piece has bytes on both sides of `at`.
  void split(uint64_t at) {
    auto next = pieces_.lower_bound(at);
    if (next == pieces_.begin())
      return;
    Piece &piece = std::prev(next)->second;
    if (piece.end <= at)
      return;
    pieces_.emplace(at, piece);
    piece.end = at;
  }

  std::map<uint64_t, Piece> pieces_; // by begin
};

/// By step of a section what it needs of the steps before it in the same call.
std::vector<std::set<uint32_t>> needsOf(const plan::Plan &plan, const plan::Program &program,
                                        const rt::Section &section) {
  std::vector<std::set<uint32_t>> needs;
  Bytes bytes;
  std::map<uint32_t, uint32_t> lastOf; // by group
  auto each = [&](std::span<const uint32_t> buffers, auto use) {
    for (uint32_t buffer : buffers) {
      const plan::Buffer &b = plan.buffers(int(buffer));
      if (const uint64_t size = rt::bytesOf(rt::toVector(b.shape()), b.dtype()).value_or(0); size > 0)
        use(b.offset(), b.offset() + size);
    }
  };
  for (uint32_t s = section.begin; s < section.end; ++s) {
    const plan::Step &step = program.steps(int(s));
    std::set<uint32_t> found(step.waits().begin(), step.waits().end());
    std::array<uint32_t, 2> own;
    const rt::Operands operands = rt::operandsOf(step, own);
    each(operands.read, [&](uint64_t begin, uint64_t end) { bytes.read(begin, end, s, found); });
    each(operands.written, [&](uint64_t begin, uint64_t end) { bytes.write(begin, end, s, found); });
    // Collectives of a group come one after the other, whatever runs them.
    if (step.has_collective()) {
      const auto last = lastOf.try_emplace(step.collective().group(), s).first;
      if (program.steps(int(last->second)).resource() != step.resource())
        found.insert(last->second);
      last->second = s;
    }
    found.erase(s);
    needs.push_back(std::move(found));
  }
  return needs;
}

/// The same tasks with those at these places in this order. It has each task behind what it needs.
TaskGraph inOrder(const TaskGraph &graph, const std::vector<int> &order) {
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[size_t(order[i])] = int(i);
  TaskGraph sorted{graph.resources, graph.pools, {}, graph.buffers};
  for (int t : order) {
    Task &task = sorted.tasks.emplace_back(graph.tasks[size_t(t)]);
    for (Need &need : task.needs)
      need.task = place[size_t(need.task)];
  }
  for (strategies::TaskBuffer &buffer : sorted.buffers) {
    buffer.maker = place[size_t(buffer.maker)];
    for (int &user : buffer.users)
      user = place[size_t(user)];
  }
  return sorted;
}

} // namespace

TaskGraph planTasks(const plan::Plan &plan, int number, const rt::Prediction &predicted) {
  const plan::Program &program = plan.programs(number);
  std::vector<int64_t> ns(size_t(program.steps_size()), 0);
  for (const rt::Prediction::Run &run : predicted.runs)
    ns[run.at.step] = run.end - run.begin;
  const rt::TimeOrder order(program);
  std::vector<std::vector<std::set<uint32_t>>> needs;
  for (const rt::Section &section : order.sections())
    needs.push_back(needsOf(plan, program, section));
  TaskGraph graph;
  for (int resource = 0; resource < plan::Resource_ARRAYSIZE; ++resource) {
    std::string name = plan::Resource_Name(resource);
    std::ranges::transform(name, name.begin(), [](char c) { return char(std::tolower(c)); });
    graph.resources.push_back(name);
  }
  int before = -1; // the end of the call before
  for (const rt::SectionCall &call : order.calls()) {
    const rt::Section &section = order.sections()[call.section];
    const int first = int(graph.tasks.size()) - int(section.begin);
    Task end{"end of a call", 0, {}, {}};
    for (uint32_t s = section.begin; s < section.end; ++s) {
      const plan::Step &step = program.steps(int(s));
      const std::string callText = order.callText({s, call.index});
      Task &task = graph.tasks.emplace_back();
      task = {step.name() + (callText.empty() ? "" : ", " + callText), ns[s], {int(step.resource())}, {}};
      if (before >= 0)
        task.needs.push_back({before});
      for (const uint32_t other : needs[call.section][s - section.begin])
        task.needs.push_back({first + int(other)});
      end.needs.push_back({first + int(s)});
    }
    if (before >= 0)
      end.needs.push_back({before});
    before = int(graph.tasks.size());
    graph.tasks.push_back(std::move(end));
  }
  return graph;
}

TaskGraph stageTasks(const PlannedSchedule &planned) {
  TaskGraph graph = strategies::pipelineTasks(planned.pipeline);
  auto idOf = [&](const strategies::PipelineTask &task) { return strategies::taskOf(planned.pipeline, task); };
  // By their start. Of those that start at once, each behind what comes before it on its device.
  TaskGraph chained = graph;
  for (const auto &tasks : planned.order)
    for (size_t i = 1; i < tasks.size(); ++i)
      chained.tasks[size_t(idOf(tasks[i]))].needs.push_back({idOf(tasks[i - 1])});
  std::vector<int> order = strategies::taskOrder(chained);
  std::ranges::stable_sort(order, {}, [&](int t) { return planned.run.start[size_t(t)]; });
  const int last = int(graph.tasks.size());
  Task all{"all micro-batches", 0, {}, {}};
  for (int t = 0; t < last; ++t)
    all.needs.push_back({t});
  graph.tasks.push_back(std::move(all));
  order.push_back(last);
  for (size_t d = 0; d < planned.devices.size(); ++d) {
    order.push_back(int(graph.tasks.size()));
    graph.tasks.push_back({"once on " + graph.resources[d], planned.devices[d].once, {int(d)}, {{last}}});
  }
  return inOrder(graph, order);
}

} // namespace tessera
