#include "tools/dump/ScheduleText.h"

#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"
#include "strategies/pipeline/CheckOrder.h"
#include "strategies/pipeline/PipelineIO.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

namespace tessera {

using strategies::Action;
using strategies::Pipeline;
using strategies::PipelineTask;

namespace {

constexpr size_t kColumns = 100, kLineWidth = 116; // of the time line, of the lists
constexpr double kMostNumber = 1e15;

/// A whole number of the report; nothing where it is absent, negative or too large.
std::optional<int64_t> wholeIn(const Json &value) {
  if (!value.is_number())
    return std::nullopt;
  const double number = value.get<double>();
  return number >= 0 && number <= kMostNumber ? std::optional(int64_t(number)) : std::nullopt;
}
std::optional<int64_t> whole(const Json &object, const char *field) {
  return object.is_object() && object.contains(field) ? wholeIn(object[field]) : std::nullopt;
}

rt::Status damaged() {
  return rt::Status::error("report.json does not say what the stages take: it is damaged, or an older tessera-compile "
                           "made it; compile the model again");
}

/// The stages of a device: "1, 5".
std::string stagesOn(const Pipeline &pipeline, int device) {
  std::string text;
  for (size_t s = 0; s < pipeline.stages.size(); ++s)
    if (pipeline.stages[s].device == device)
      text += (text.empty() ? "" : ", ") + std::to_string(s);
  return text;
}

/// What a section of a device's program is.
struct Part {
  Action action = Action::Forward;
  int stage = 0;
};

/// The order of the devices' calls. A section without steps has no calls; its action occupies no device, and comes into
/// the order when what it needs is there.
strategies::PipelineOrder withUncalled(const Pipeline &pipeline, const strategies::PipelineOrder &calls) {
  const strategies::TaskGraph graph = strategies::pipelineTasks(pipeline);
  auto idOf = [&](const PipelineTask &task) { return size_t(strategies::taskOf(pipeline, task)); };
  std::vector<bool> called(graph.tasks.size(), false);
  for (const auto &tasks : calls)
    for (const PipelineTask &task : tasks)
      called[idOf(task)] = true;
  std::vector<int64_t> start(graph.tasks.size(), -1), free(calls.size(), 0);
  // Starts a task that is not earlier than `at`, if all that it needs has begun.
  auto begin = [&](size_t id, int64_t at) {
    for (const strategies::Need &need : graph.tasks[id].needs) {
      if (start[size_t(need.task)] < 0)
        return false;
      at = std::max(at, start[size_t(need.task)] + graph.tasks[size_t(need.task)].duration + need.lag);
    }
    start[id] = at;
    return true;
  };
  std::vector<size_t> next(calls.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t id = graph.tasks.size(); id-- > 0;)
      if (!called[id] && start[id] < 0)
        moved |= begin(id, 0);
    for (size_t d = 0; d < calls.size(); ++d)
      for (; next[d] < calls[d].size(); ++next[d]) {
        const size_t id = idOf(calls[d][next[d]]);
        if (start[id] < 0 && !begin(id, free[d]))
          break;
        free[d] = start[id] + graph.tasks[id].duration;
        moved = true;
      }
  }
  std::vector<std::vector<std::pair<int64_t, PipelineTask>>> others(calls.size()); // by device, with their times
  for (int s = 0; s < int(pipeline.stages.size()); ++s)
    for (int j = 0; j < pipeline.microBatches; ++j)
      for (Action action : {Action::Forward, Action::Input, Action::Weight})
        if (const PipelineTask task{action, s, j}; !called[idOf(task)])
          others[size_t(pipeline.stages[size_t(s)].device)].emplace_back(start[idOf(task)], task);
  strategies::PipelineOrder order(calls.size());
  for (size_t d = 0; d < calls.size(); ++d) {
    std::stable_sort(others[d].begin(), others[d].end(),
                     [](const auto &a, const auto &b) { return a.first < b.first; });
    size_t at = 0;
    for (const PipelineTask &task : calls[d]) {
      for (; at < others[d].size() && others[d][at].first <= start[idOf(task)]; ++at)
        order[d].push_back(others[d][at].second);
      order[d].push_back(task);
    }
    for (; at < others[d].size(); ++at)
      order[d].push_back(others[d][at].second);
  }
  return order;
}

} // namespace

void PlannedSchedule::add(const plan::Plan &plan) {
  if (plan.rank() == 0)
    stages = rt::stagesOf(plan);
  if (stages.placeOf(plan.rank()) != 0)
    return;
  Device &device = devices.emplace_back();
  device.arenaBytes = plan.arena_bytes();
  for (const plan::Frame &frame : plan.frames())
    device.frameBytes += frame.bytes() * frame.slots();
  for (const plan::Program &program : plan.programs())
    if (const rt::TimeOrder order(program); device.program.empty() && order.sections().size() > 1) {
      device.program = program.name();
      device.calls = order.calls();
      device.sections = order.sections().size();
    }
}

rt::Status PlannedSchedule::read(const Json &report) {
  if (stages.count() < 2)
    return rt::Status::error("--schedule csv: the plan has no stages; compile with --mesh stage=2,...");
  for (const Device &device : devices)
    if (device.program.empty())
      return rt::Status::error(
          "--schedule: the plan has one micro-batch, which passes through the stages one after the "
          "other; compile with --train --accumulate N");
  if (!report.contains("pipeline"))
    return damaged();
  const Json &from = report["pipeline"];
  name = rt::printable(text(from, "schedule"));
  const std::optional<int64_t> parts = whole(from, "micro_batches");
  const Json &list = tessera::list(from, "stages");
  if (!parts || *parts < 1 || *parts > 1 << 20 || list.empty())
    return damaged();
  pipeline.devices = int(devices.size());
  pipeline.microBatches = int(*parts);
  pipeline.limits.assign(devices.size(), -1);
  std::vector<std::vector<std::optional<Part>>> sections(devices.size()); // by device, section
  for (const Json &stage : list) {
    const auto device = whole(stage, "device"), forward = whole(stage, "forward_ns"), input = whole(stage, "input_ns"),
               weight = whole(stage, "weight_ns"), once = whole(stage, "once_ns"), held = whole(stage, "held_bytes"),
               kept = whole(stage, "kept_bytes");
    const Json &numbers = tessera::list(stage, "sections");
    if (!device || *device >= int64_t(devices.size()) || !forward || !input || !weight || !once || !held || !kept ||
        numbers.size() != 3)
      return damaged();
    auto &known = sections[size_t(*device)];
    for (size_t action = 0; action < 3; ++action) {
      const std::optional<int64_t> section = wholeIn(numbers[action]);
      if (!section || *section > 1 << 20)
        return damaged();
      known.resize(std::max(known.size(), size_t(*section) + 1));
      known[size_t(*section)] = Part{Action(action), int(pipeline.stages.size())};
    }
    devices[size_t(*device)].once += *once;
    pipeline.stages.push_back({int(*device), *forward, *input, *weight, *held, *kept});
  }
  for (const Json &transfer : tessera::list(from, "transfers_ns"))
    pipeline.transfers.push_back(wholeIn(transfer).value_or(-1));
  if (!strategies::checkPipeline(pipeline).empty())
    return damaged();
  strategies::PipelineOrder calls(devices.size());
  for (size_t d = 0; d < devices.size(); ++d)
    for (const rt::SectionCall &call : devices[d].calls) {
      if (call.section == 0 || call.section + 1 == devices[d].sections)
        continue; // what is done once
      if (call.section >= sections[d].size() || !sections[d][call.section] || int64_t(call.index) >= *parts)
        return damaged();
      calls[d].push_back({sections[d][call.section]->action, sections[d][call.section]->stage, int(call.index)});
    }
  order = withUncalled(pipeline, calls);
  if (const std::string error = strategies::checkOrder(pipeline, order, "the plan"); !error.empty())
    return rt::Status::error("report.json does not fit to the plan's calls (" + error + "); compile the model again");
  run = strategies::runInOrder(pipeline, order);
  std::vector<int64_t> once;
  for (const Device &device : devices)
    once.push_back(device.once);
  step = strategies::stepOf(pipeline, run, once);
  // The figure that everybody tells. The run may end earlier, where the compiler's order lets an action without steps
  // wait for others.
  step.time = whole(from, "predicted_ns").value_or(step.time);
  step.bubble = number(from, "bubble");
  return rt::Status();
}

namespace {

/// "0F0..3 0I0 0W0": actions of following micro-batches are one word.
std::string wordsOf(const std::vector<PipelineTask> &tasks, const std::string &head) {
  std::string out, line = head;
  for (size_t i = 0; i < tasks.size();) {
    size_t j = i + 1;
    while (j < tasks.size() && tasks[j].action == tasks[i].action && tasks[j].stage == tasks[i].stage)
      ++j;
    std::string word = strategies::taskText(tasks[i]);
    if (j > i + 1)
      word += ".." + std::to_string(tasks[j - 1].microBatch);
    if (line.size() + 1 + word.size() > kLineWidth) {
      out += line + "\n";
      line = std::string(head.size(), ' ');
    }
    line += " " + word;
    i = j;
  }
  return out + line + "\n";
}

std::string timeLine(const PlannedSchedule &planned, size_t device) {
  const Pipeline &pipeline = planned.pipeline;
  std::string line(kColumns, '.');
  int first = 0; // stage of the device
  while (first + 1 < int(pipeline.stages.size()) && pipeline.stages[size_t(first)].device != int(device))
    ++first;
  for (const PipelineTask &task : planned.order[device]) {
    const strategies::PipelineStage &stage = pipeline.stages[size_t(task.stage)];
    const int64_t begin = planned.run.start[size_t(strategies::taskOf(pipeline, task))];
    const int64_t end = begin + (task.action == Action::Forward ? stage.forward
                                 : task.action == Action::Input ? stage.input
                                                                : stage.weight);
    // The columns whose middle lies in the action.
    auto columnOf = [&](int64_t time) {
      return size_t(std::ceil(double(time) / double(std::max<int64_t>(1, planned.run.makespan)) * kColumns - 0.5));
    };
    for (size_t c = columnOf(begin); c < std::min(columnOf(end), kColumns); ++c)
      line[c] = (first == task.stage ? "FIW" : "fiw")[int(task.action)];
  }
  return line;
}

} // namespace

std::string scheduleText(const PlannedSchedule &planned) {
  const Pipeline &pipeline = planned.pipeline;
  const size_t devices = planned.devices.size();
  const bool shared = pipeline.stages.size() > devices; // several stages on one rank
  size_t width = 6;                                     // of the column of stages
  for (size_t d = 0; d < devices; ++d)
    width = std::max(width, stagesOn(pipeline, int(d)).size());
  std::string out = rt::printable(planned.devices[0].program) + ": predicted " + ms(double(planned.step.time)) + ", " +
                    std::to_string(pipeline.stages.size()) + " stages" +
                    (shared ? " on " + std::to_string(devices) + " places" : "") + ", " +
                    std::to_string(pipeline.microBatches) + " micro-batches, schedule " + planned.name + ", bubble " +
                    percent(planned.step.bubble) + "\n\n";
  const std::vector<int> inFlight = strategies::mostInFlight(pipeline, planned.order);
  out += "  " + padded(shared ? "stages" : "stage", width) + padded("ranks", 12) + padded("F", 12) + padded("I", 12) +
         padded("W", 12) + padded("once", 12) + padded("busy", 12) + padded("idle", 8) + "in flight\n";
  for (size_t d = 0; d < devices; ++d) {
    std::array<int64_t, 3> times = {};
    for (const strategies::PipelineStage &stage : pipeline.stages)
      if (stage.device == int(d)) {
        times[0] += stage.forward;
        times[1] += stage.input;
        times[2] += stage.weight;
      }
    const uint32_t first = planned.stages.firstOf(uint32_t(d)), last = first + planned.stages.ranksOf(uint32_t(d)) - 1;
    out += "  " + padded(stagesOn(pipeline, int(d)), width) +
           padded(std::to_string(first) + (last > first ? " to " + std::to_string(last) : ""), 12);
    for (int64_t time : times)
      out += padded(ms(double(time)), 12);
    const auto busy = double(planned.step.busy[d]), all = double(std::max<int64_t>(1, planned.step.time));
    out += padded(ms(double(planned.devices[d].once)), 12) + padded(ms(busy), 12) + padded(percent(1 - busy / all), 8) +
           std::to_string(inFlight[d]) + (inFlight[d] == 1 ? " micro-batch, " : " micro-batches, ") +
           bytesText(double(planned.devices[d].frameBytes)) + " of " +
           bytesText(double(planned.devices[d].arenaBytes)) + "\n";
  }
  out += "\n  " + ms(double(planned.run.makespan)) + " between what is done once, in " + std::to_string(kColumns) +
         " columns: F forward, I gradients of inputs, W gradients of weights" +
         (shared ? " (small letters: of the further stages of a rank)" : "") + ", . idle\n";
  auto head = [&](size_t d) {
    return padded((shared ? "stages " : "stage ") + stagesOn(pipeline, int(d)), width + (shared ? 7 : 2));
  };
  for (size_t d = 0; d < devices; ++d)
    out += "  " + head(d) + timeLine(planned, d) + "\n";
  out += "\n  the order (0F3: forward of micro-batch 3 in stage 0; --schedule csv prints it for tessera-compile "
         "--pipeline schedule=FILE.csv)\n";
  for (size_t d = 0; d < devices; ++d)
    out += wordsOf(planned.order[d], "  " + head(d));
  return out;
}

} // namespace tessera
