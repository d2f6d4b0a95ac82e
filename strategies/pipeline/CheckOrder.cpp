#include "strategies/pipeline/CheckOrder.h"

#include "strategies/pipeline/PipelineIO.h"

#include <algorithm>
#include <array>

namespace tessera::strategies {

namespace {

std::string lineText(size_t device) { return "line " + std::to_string(device + 1); }

/// What is wrong with a line of its own.
class LineCheck {
public:
  LineCheck(const Pipeline &pipeline, size_t device)
      : pipeline_(pipeline), device_(device), done_(pipeline.stages.size(), {0, 0, 0}) {}

  std::string add(PipelineTask task) {
    const int stages = int(pipeline_.stages.size());
    if (task.stage >= stages)
      return of(task) + " is of stage " + std::to_string(task.stage) + "; there are the stages 0 to " +
             std::to_string(stages - 1);
    if (const int home = pipeline_.stages[size_t(task.stage)].device; home != int(device_))
      return of(task) + " is of stage " + std::to_string(task.stage) + ", whose tasks belong in " +
             lineText(size_t(home));
    if (task.microBatch >= pipeline_.microBatches)
      return of(task) + " is of micro-batch " + std::to_string(task.microBatch) +
             "; the step has the micro-batches 0 to " + std::to_string(pipeline_.microBatches - 1) + " (--accumulate)";
    std::array<int, 3> &done = done_[size_t(task.stage)];
    int &mine = done[size_t(task.action)];
    if (task.microBatch < mine)
      return of(task) + " comes twice; leave one out";
    PipelineTask before = task;
    if (task.microBatch > mine) {
      before.microBatch = mine;
      return of(task) + " comes before " + taskText(before) +
             "; an action of a stage takes the micro-batches in order, each once";
    }
    before.action = Action(int(task.action) - 1);
    if (task.action != Action::Forward && done[size_t(before.action)] <= task.microBatch)
      return of(task) + " comes before " + taskText(before) + ", which it needs; put it behind";
    ++mine;
    return "";
  }

  std::string finish() const {
    for (size_t s = 0; s < done_.size(); ++s)
      for (int action = 0; action < 3 && pipeline_.stages[s].device == int(device_); ++action)
        if (done_[s][size_t(action)] < pipeline_.microBatches)
          return lineText(device_) + ": " + taskText({Action(action), int(s), done_[s][size_t(action)]}) +
                 " is missing; every stage does F, I and W once for each of the " +
                 std::to_string(pipeline_.microBatches) + " micro-batches";
    return "";
  }

private:
  std::string of(PipelineTask task) const { return lineText(device_) + ": " + taskText(task); }

  const Pipeline &pipeline_;
  const size_t device_;
  std::vector<std::array<int, 3>> done_; // by stage, action: how many micro-batches
};

/// Runs lines that are right on their own, and tells who waits for whom if they stand still.
std::string checkProgress(const Pipeline &pipeline, const PipelineOrder &order) {
  const TaskGraph graph = pipelineTasks(pipeline);
  std::vector<size_t> next(order.size(), 0);
  std::vector<bool> done(graph.tasks.size(), false);
  auto at = [&](size_t device) { return order[device][next[device]]; };
  // The first task that the device's next one waits for; -1: none.
  auto missing = [&](size_t device) {
    for (const Need &need : graph.tasks[size_t(taskOf(pipeline, at(device)))].needs)
      if (!done[size_t(need.task)])
        return need.task;
    return -1;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t d = 0; d < order.size(); ++d)
      for (; next[d] < order[d].size() && missing(d) < 0; ++next[d], moved = true)
        done[size_t(taskOf(pipeline, at(d)))] = true;
  }
  size_t device = 0;
  while (device < order.size() && next[device] == order[device].size())
    ++device;
  if (device == order.size())
    return "";
  auto taskAt = [&](int task) {
    const int count = pipeline.microBatches;
    return PipelineTask{Action(task % 3), task / 3 / count, task / 3 % count};
  };
  std::vector<size_t> chain; // follows whom they wait for until a device comes twice
  while (std::find(chain.begin(), chain.end(), device) == chain.end()) {
    chain.push_back(device);
    device = size_t(pipeline.stages[size_t(taskAt(missing(device)).stage)].device);
  }
  std::string text = "the lines wait for each other for ever: ";
  const auto first = std::find(chain.begin(), chain.end(), device);
  for (auto it = first; it != chain.end(); ++it)
    text += (it == first ? "" : ", ") + lineText(*it) + " at " + taskText(at(*it)) + " for " +
            taskText(taskAt(missing(*it)));
  return text + "; move one of them behind what the others need of its line";
}

} // namespace

std::string checkOrder(const Pipeline &pipeline, const PipelineOrder &order, const std::string &name) {
  auto fail = [&](const std::string &what) { return name + ": " + what; };
  if (order.size() != size_t(pipeline.devices))
    return fail("has " + std::to_string(order.size()) + (order.size() == 1 ? " line" : " lines") + " for " +
                std::to_string(pipeline.devices) + " places of the axis 'stage'; write a line for each");
  for (size_t d = 0; d < order.size(); ++d) {
    LineCheck line(pipeline, d);
    for (const PipelineTask &task : order[d])
      if (const std::string error = line.add(task); !error.empty())
        return fail(error);
    if (const std::string error = line.finish(); !error.empty())
      return fail(error);
  }
  const std::string error = checkProgress(pipeline, order);
  return error.empty() ? "" : fail(error);
}

} // namespace tessera::strategies
