#include "tools/dump/TimeLine.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera {
namespace {

constexpr size_t kWidth = 100; // of a line
constexpr size_t kMostLabel = 24, kMostName = 56;
constexpr size_t kNamed = 8; // of the tasks so many have a letter

/// A kernel or a message, whose steps follow each other.
struct Drawn {
  std::string name;
  size_t row = 0;
  int64_t begin = 0, end = 0, ns = 0;
  char letter = 0;
};

struct Row {
  std::string label;
  size_t tasks = 0;
  int64_t busy = 0;
};

std::string shortened(std::string text, size_t width) {
  if (text.size() > width)
    text = text.substr(0, width - 3) + "...";
  return text;
}

/// Times on the columns of a line.
struct Scale {
  int64_t end = 1;
  size_t columns = 1;
  /// The first column whose middle is not before the time.
  size_t columnOf(int64_t time) const {
    const double column = std::ceil(double(time) / double(end) * double(columns) - 0.5);
    return std::min(columns, size_t(std::max(0.0, column)));
  }
  void draw(std::string &line, int64_t begin, int64_t until, char mark) const {
    for (size_t c = columnOf(begin); c < columnOf(until); ++c)
      line[c] = mark;
  }
};

/// Kernels are in row 0, and the messages of each group in one of their own.
std::pair<std::vector<Drawn>, std::vector<Row>> drawn(const plan::Plan &plan, const plan::Program &program,
                                                      const rt::Prediction &predicted) {
  std::vector<Drawn> tasks;
  std::vector<Row> rows = {{"compute"}};
  std::map<std::string, size_t> rowOf;
  const std::vector<int> messages = rt::messagesOf(program);
  const rt::TimeOrder order(program);
  std::map<std::pair<int, uint32_t>, size_t> taskOf; // by message and call
  for (const rt::Prediction::Run &run : predicted.runs) {
    const plan::Step &step = program.steps(int(run.at.step));
    const int message = messages[run.at.step];
    if (message >= 0)
      if (const auto known = taskOf.find({message, run.at.index}); known != taskOf.end()) {
        Drawn &task = tasks[known->second];
        task.begin = std::min(task.begin, run.begin);
        task.end = std::max(task.end, run.end);
        task.ns += run.end - run.begin;
        continue;
      }
    std::string name = rt::printable(step.name());
    size_t row = 0;
    if (message >= 0) {
      taskOf[{message, run.at.index}] = tasks.size();
      const plan::Collective &collective = program.steps(message).collective();
      const std::string group = rt::printable(plan.groups(int(collective.group())).name());
      const std::string label = group.empty() ? "collectives" : "over " + group;
      row = rowOf.try_emplace(label, rows.size()).first->second;
      if (row == rows.size())
        rows.push_back({label});
      const uint32_t others = rt::followers(collective);
      name = rt::collectiveName(collective.kind()) + " " + rt::printable(program.steps(message).name()) +
             (others ? " and " + std::to_string(others) + " more" : "");
    }
    const std::string call = order.callText(run.at);
    tasks.push_back({name + (call.empty() ? "" : ", " + call), row, run.begin, run.end, run.end - run.begin});
  }
  for (const Drawn &task : tasks) {
    ++rows[task.row].tasks;
    rows[task.row].busy += task.ns;
  }
  return {std::move(tasks), std::move(rows)};
}

/// The times in which a message is under way and no kernel is.
std::vector<std::pair<int64_t, int64_t>> exposedIn(const std::vector<Drawn> &tasks) {
  struct Change {
    int64_t time;
    int kernels, messages;
  };
  std::vector<Change> changes;
  for (const Drawn &task : tasks) {
    const int kernel = task.row == 0;
    changes.push_back({task.begin, kernel, 1 - kernel});
    changes.push_back({task.end, -kernel, kernel - 1});
  }
  std::ranges::sort(changes, {}, &Change::time);
  std::vector<std::pair<int64_t, int64_t>> times;
  int kernels = 0, messages = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    kernels += changes[i].kernels;
    messages += changes[i].messages;
    if (i + 1 < changes.size() && changes[i].time < changes[i + 1].time && kernels == 0 && messages > 0)
      times.emplace_back(changes[i].time, changes[i + 1].time);
  }
  return times;
}

/// The end of the schedule, and what the report says of the whole. Bound and gap are those of the predicted time, which
/// has what messages delay kernels by.
std::string headText(const std::string &program, const rt::Prediction &predicted, const Json &report) {
  std::string out = rt::printable(program) + ": ";
  std::string bound;
  for (const Json &function : list(report, "functions")) {
    if (text(function, "name") != program)
      continue;
    if (function.contains("beside"))
      out += "predicted " + ms(predictedNs(function)) + "; without what messages delay kernels by it ";
    if (function.contains("schedule")) {
      char gap[40];
      std::snprintf(gap, sizeof gap, "%.2f %%", 100 * number(function["schedule"], "gap"));
      bound = "  predicted in any order at least " + ms(number(function["schedule"], "lower_bound_ns")) +
              ", gap to that bound " + gap + "\n";
    }
  }
  return out + "ends after " + ms(double(predicted.end)) + "\n" + bound + "\n";
}

} // namespace

std::string timeLineText(const plan::Plan &plan, int number, const rt::Prediction &predicted, const Json &report) {
  const plan::Program &program = plan.programs(number);
  auto [tasks, rows] = drawn(plan, program, predicted);
  std::vector<size_t> largest(tasks.size());
  for (size_t t = 0; t < largest.size(); ++t)
    largest[t] = t;
  std::ranges::stable_sort(largest, std::greater<>(), [&](size_t t) { return tasks[t].ns; });
  largest.resize(std::min(kNamed, largest.size()));
  std::ranges::sort(largest);
  for (size_t i = 0; i < largest.size(); ++i)
    tasks[largest[i]].letter = char('A' + i);

  size_t width = std::string("communication").size();
  for (Row &row : rows)
    width = std::max(width, (row.label = shortened(row.label, kMostLabel)).size());
  const std::string margin = "  ";
  const Scale scale{std::max<int64_t>(1, predicted.end), kWidth - margin.size() - width - 2};
  std::vector<std::string> lines(rows.size(), std::string(scale.columns, '.'));
  for (const Drawn &task : tasks)
    scale.draw(lines[task.row], task.begin, task.end, task.letter ? task.letter : task.row == 0 ? '#' : '=');
  std::string exposed(scale.columns, '.');
  for (const auto &[begin, end] : exposedIn(tasks))
    scale.draw(exposed, begin, end, '!');

  std::string out = headText(program.name(), predicted, report);
  auto line = [&](const std::string &label, const std::string &text) {
    out += margin + padded(label, width) + " " + text + "\n";
  };
  const std::string end = ms(double(predicted.end));
  line("", padded("0", scale.columns - std::min(scale.columns - 1, end.size()) - 1) + end);
  for (size_t r = 0; r < rows.size(); ++r)
    line(rows[r].label, lines[r]);
  if (rows.size() > 1)
    line("exposed", exposed);
  out += "\n";
  line("", padded("tasks", 9) + padded("busy", 13) + "of the schedule");
  for (const Row &row : rows)
    line(row.label, padded(std::to_string(row.tasks), 9) + padded(ms(double(row.busy)), 13) +
                        percent(double(row.busy) / double(scale.end)));
  if (rows.size() > 1)
    line("exposed", padded("", 9) + padded(ms(double(predicted.exposed)), 13) +
                        percent(double(predicted.exposed) / double(scale.end)));
  out += "\n  The largest tasks:\n";
  for (size_t t : largest)
    out += margin + std::string(1, tasks[t].letter) + "  " + padded(ms(double(tasks[t].ns)), 12) + "from " +
           padded(ms(double(tasks[t].begin)), 12) + shortened(tasks[t].name, kMostName) + "\n";
  return out;
}

} // namespace tessera
