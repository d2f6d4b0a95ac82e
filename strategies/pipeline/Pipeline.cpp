#include "strategies/pipeline/Pipeline.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

namespace tessera::strategies {

namespace {

constexpr int kMostTasks = 10'000'000;
constexpr int64_t kLargest = int64_t(1) << 40; // of a duration: no sum of kMostTasks of them overflows
constexpr std::array<Action, 3> kActions = {Action::Forward, Action::Input, Action::Weight};

const char *nameOf(Action action) {
  return action == Action::Forward ? "forward" : action == Action::Input ? "input" : "weight";
}

/// Calls f(task, lag) for all that a task needs.
template <typename F> void forEachNeed(const Pipeline &pipeline, PipelineTask task, const F &f) {
  const int last = int(pipeline.stages.size()) - 1, s = task.stage, j = task.microBatch;
  switch (task.action) {
  case Action::Forward:
    if (s > 0)
      f(PipelineTask{Action::Forward, s - 1, j}, pipeline.transfers[size_t(s) - 1]);
    break;
  case Action::Input:
    f(PipelineTask{Action::Forward, s, j}, 0);
    if (s < last)
      f(PipelineTask{Action::Input, s + 1, j}, pipeline.transfers[size_t(s)]);
    break;
  case Action::Weight:
    f(PipelineTask{Action::Input, s, j}, 0);
    break;
  }
}

std::string textOf(PipelineTask task) {
  return std::string(nameOf(task.action)) + " of micro-batch " + std::to_string(task.microBatch) + " in stage " +
         std::to_string(task.stage);
}

/// The most bytes at one time, by device. What is freed at an instant is freed before anything is taken.
std::vector<int64_t> peaksOf(const Pipeline &pipeline, const StartTimes &start) {
  struct Change {
    int64_t time, bytes;
  };
  std::vector<std::vector<Change>> changes(size_t(pipeline.devices));
  for (int s = 0; s < int(pipeline.stages.size()); ++s) {
    const PipelineStage &stage = pipeline.stages[size_t(s)];
    for (int j = 0; j < pipeline.microBatches; ++j) {
      auto startOf = [&](Action action) { return start[size_t(taskOf(pipeline, {action, s, j}))]; };
      auto &list = changes[size_t(stage.device)];
      list.push_back({startOf(Action::Forward), stage.held});
      list.push_back({startOf(Action::Input) + stage.input, stage.kept - stage.held});
      list.push_back({startOf(Action::Weight) + stage.weight, -stage.kept});
    }
  }
  std::vector<int64_t> peaks;
  for (auto &list : changes) {
    std::sort(list.begin(), list.end(),
              [](const Change &a, const Change &b) { return std::pair(a.time, a.bytes) < std::pair(b.time, b.bytes); });
    int64_t now = 0, most = 0;
    for (const Change &change : list)
      most = std::max(most, now += change.bytes);
    peaks.push_back(most);
  }
  return peaks;
}

} // namespace

Pipeline evenPipeline(const EvenPipeline &even) {
  Pipeline pipeline;
  pipeline.devices = even.devices;
  pipeline.microBatches = even.microBatches;
  const StagePlaces places{even.devices, even.chunks, even.returns};
  for (int s = 0; s < places.stages(); ++s) {
    PipelineStage stage;
    stage.device = places.deviceOf(s);
    stage.forward = even.forward / even.chunks;
    stage.input = even.input / even.chunks;
    stage.weight = even.weight / even.chunks;
    stage.held = even.held / even.chunks;
    stage.kept = even.kept / even.chunks;
    if (s > 0)
      pipeline.transfers.push_back(stage.device == pipeline.stages.back().device ? 0 : even.transfer);
    pipeline.stages.push_back(stage);
  }
  pipeline.limits.assign(size_t(even.devices), -1);
  return pipeline;
}

Pipeline withWholeBackward(Pipeline pipeline) {
  for (PipelineStage &stage : pipeline.stages) {
    stage.input += stage.weight;
    stage.weight = 0;
    stage.kept = 0;
  }
  return pipeline;
}

static std::vector<int64_t> workOf(const Pipeline &pipeline) {
  std::vector<int64_t> work(size_t(pipeline.devices), 0);
  for (const PipelineStage &stage : pipeline.stages)
    work[size_t(stage.device)] += (stage.forward + stage.input + stage.weight) * pipeline.microBatches;
  return work;
}

int64_t mostWork(const Pipeline &pipeline) {
  const std::vector<int64_t> work = workOf(pipeline);
  return *std::max_element(work.begin(), work.end());
}

PipelineStep stepOf(const Pipeline &pipeline, const PipelineRun &run, const std::vector<int64_t> &once) {
  PipelineStep step{run.makespan + *std::max_element(once.begin(), once.end()), 0, workOf(pipeline)};
  double all = 0;
  for (size_t d = 0; d < once.size(); ++d)
    all += double(step.busy[d] += once[d]);
  if (step.time > 0)
    step.bubble = 1 - all / (double(step.time) * pipeline.devices);
  return step;
}

std::vector<int> mostInFlight(const Pipeline &pipeline, const PipelineOrder &order) {
  std::vector<int> most(size_t(pipeline.devices), 0);
  for (size_t d = 0; d < order.size(); ++d) {
    int now = 0;
    for (const PipelineTask &task : order[d]) {
      now += task.action == Action::Forward ? 1 : task.action == Action::Weight ? -1 : 0;
      most[d] = std::max(most[d], now);
    }
  }
  return most;
}

std::vector<std::vector<std::vector<int>>> mostHeld(const Pipeline &pipeline, const PipelineOrder &order) {
  std::vector<int> chunkOf(pipeline.stages.size()), chunks(size_t(pipeline.devices), 0);
  for (size_t s = 0; s < chunkOf.size(); ++s)
    chunkOf[s] = chunks[size_t(pipeline.stages[s].device)]++;
  std::vector<std::vector<std::vector<int>>> most(order.size());
  for (size_t d = 0; d < order.size(); ++d) {
    std::vector<int> now(size_t(chunks[d]), 0);
    std::set<std::vector<int>> moments;
    for (const PipelineTask &task : order[d]) {
      now[size_t(chunkOf[size_t(task.stage)])] += task.action == Action::Forward  ? 1
                                                  : task.action == Action::Weight ? -1
                                                                                  : 0;
      if (task.action == Action::Forward)
        moments.insert(now);
    }
    for (const std::vector<int> &moment : moments)
      if (std::none_of(moments.begin(), moments.end(), [&](const std::vector<int> &other) {
            return other != moment && std::ranges::equal(moment, other, std::ranges::less_equal());
          }))
        most[d].push_back(moment);
  }
  return most;
}

std::string checkPipeline(const Pipeline &pipeline) {
  if (pipeline.devices < 1 || pipeline.microBatches < 1 || pipeline.stages.empty())
    return "a pipeline needs a device, a micro-batch and a stage at least";
  if (double(pipeline.stages.size()) * pipeline.microBatches * 3 > kMostTasks)
    return "more than " + std::to_string(kMostTasks) + " tasks";
  if (pipeline.transfers.size() + 1 != pipeline.stages.size())
    return std::to_string(pipeline.stages.size()) + " stages need " + std::to_string(pipeline.stages.size() - 1) +
           " transfers, not " + std::to_string(pipeline.transfers.size());
  if (pipeline.limits.size() != size_t(pipeline.devices))
    return std::to_string(pipeline.devices) + " devices need as many limits of memory, not " +
           std::to_string(pipeline.limits.size());
  auto bad = [](int64_t number) { return number < 0 || number > kLargest; };
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PipelineStage &stage = pipeline.stages[s];
    if (stage.device < 0 || stage.device >= pipeline.devices)
      return "stage " + std::to_string(s) + " lies on device " + std::to_string(stage.device) +
             ", which does not exist";
    if (bad(stage.forward) || bad(stage.input) || bad(stage.weight) || bad(stage.held) || bad(stage.kept))
      return "stage " + std::to_string(s) + " has a time or bytes that are negative or too large";
  }
  if (std::any_of(pipeline.transfers.begin(), pipeline.transfers.end(), bad))
    return "a transfer takes a time that is negative or too large";
  return "";
}

TaskGraph pipelineTasks(const Pipeline &pipeline) {
  TaskGraph graph;
  for (int d = 0; d < pipeline.devices; ++d) {
    graph.resources.push_back("device " + std::to_string(d));
    graph.pools.push_back({graph.resources.back(), pipeline.limits[size_t(d)]});
  }
  for (int s = 0; s < int(pipeline.stages.size()); ++s) {
    const PipelineStage &stage = pipeline.stages[size_t(s)];
    for (int j = 0; j < pipeline.microBatches; ++j) {
      for (Action action : kActions) {
        Task task{textOf({action, s, j}), durationOf(stage, action), {stage.device}, {}};
        forEachNeed(pipeline, {action, s, j}, [&](PipelineTask need, int64_t lag) {
          task.needs.push_back({taskOf(pipeline, need), lag});
        });
        if (j > 0) // micro-batches are alike
          task.needs.push_back({taskOf(pipeline, {action, s, j - 1})});
        graph.tasks.push_back(std::move(task));
      }
      const int forward = taskOf(pipeline, {Action::Forward, s, j}), input = forward + 1, weight = forward + 2;
      graph.buffers.push_back({stage.device, stage.held, forward, false, {input}});
      graph.buffers.push_back({stage.device, stage.kept, input, true, {weight}});
    }
  }
  return graph;
}

PipelineRun runInOrder(const Pipeline &pipeline, const PipelineOrder &order) {
  PipelineRun run;
  const size_t tasks = pipeline.stages.size() * size_t(pipeline.microBatches) * 3;
  run.start.assign(tasks, -1);
  std::vector<size_t> next(size_t(pipeline.devices), 0);
  std::vector<int64_t> free(size_t(pipeline.devices), 0);
  if (order.size() != next.size()) {
    run.error =
        "the order has " + std::to_string(order.size()) + " devices, the pipeline " + std::to_string(pipeline.devices);
    return run;
  }
  size_t done = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t d = 0; d < order.size(); ++d)
      for (; next[d] < order[d].size(); ++next[d]) {
        const PipelineTask task = order[d][next[d]];
        if (task.stage < 0 || task.stage >= int(pipeline.stages.size()) || task.microBatch < 0 ||
            task.microBatch >= pipeline.microBatches || pipeline.stages[size_t(task.stage)].device != int(d)) {
          run.error = textOf(task) + " is not a task of device " + std::to_string(d);
          return run;
        }
        int64_t &start = run.start[size_t(taskOf(pipeline, task))];
        if (start >= 0) {
          run.error = textOf(task) + " comes twice";
          return run;
        }
        int64_t at = free[d];
        bool ready = true;
        forEachNeed(pipeline, task, [&](PipelineTask need, int64_t lag) {
          const int64_t began = run.start[size_t(taskOf(pipeline, need))];
          ready &= began >= 0;
          at = std::max(at, began + durationOf(pipeline.stages[size_t(need.stage)], need.action) + lag);
        });
        if (!ready)
          break;
        start = at;
        free[d] = at + durationOf(pipeline.stages[size_t(task.stage)], task.action);
        moved = true;
        ++done;
      }
  }
  for (size_t d = 0; d < order.size(); ++d)
    if (next[d] < order[d].size()) {
      run.error = "device " + std::to_string(d) + " waits for ever before " + textOf(order[d][next[d]]);
      return run;
    }
  if (done != tasks) {
    run.error = "the order has " + std::to_string(done) + " of " + std::to_string(tasks) + " tasks";
    return run;
  }
  for (size_t d = 0; d < order.size(); ++d) {
    run.makespan = std::max(run.makespan, free[d]);
    if (!order[d].empty())
      run.longestSpan = std::max(run.longestSpan, free[d] - run.start[size_t(taskOf(pipeline, order[d].front()))]);
  }
  run.peak = peaksOf(pipeline, run.start);
  return run;
}

bool fits(const Pipeline &pipeline, const PipelineRun &run) {
  for (size_t d = 0; d < run.peak.size(); ++d)
    if (pipeline.limits[d] >= 0 && run.peak[d] > pipeline.limits[d])
      return false;
  return true;
}

} // namespace tessera::strategies
