#include "strategies/pipeline/OrderBound.h"

#include "strategies/time/Bound.h"

#include <algorithm>
#include <limits>

namespace tessera::strategies {

namespace {

struct DeviceBound {
  int64_t first = 0; // when it can begin
  int64_t span = 0;
};

/// Forward actions that a device can begin before an Input action frees memory, as time.
int64_t forwardsThatFit(const Pipeline &pipeline, int device) {
  std::vector<const PipelineStage *> stages;
  for (const PipelineStage &stage : pipeline.stages)
    if (stage.device == device && stage.forward > 0)
      stages.push_back(&stage);
  const int64_t limit = pipeline.limits[size_t(device)];
  if (stages.size() == 1) {
    const bool limited = limit >= 0 && stages[0]->held > 0;
    return stages[0]->forward * std::min<int64_t>(pipeline.microBatches, limited ? limit / stages[0]->held : INT32_MAX);
  }
  // Parts of actions are allowed, so that the best choice takes first what takes longest for what it holds.
  std::sort(stages.begin(), stages.end(), [](const PipelineStage *a, const PipelineStage *b) {
    return double(a->forward) * double(b->held) > double(b->forward) * double(a->held);
  });
  double left = limit < 0 ? std::numeric_limits<double>::infinity() : double(limit), time = 0;
  for (const PipelineStage *stage : stages) {
    double count = pipeline.microBatches;
    if (stage->held > 0)
      count = std::min(count, left / double(stage->held));
    left -= count * double(stage->held);
    time += count * double(stage->forward);
  }
  return int64_t(time * (1 + 1e-12)) + 1;
}

DeviceBound boundOf(const Pipeline &pipeline, int device, const std::vector<int64_t> &there,
                    const std::vector<int64_t> &back) {
  DeviceBound bound{.first = std::numeric_limits<int64_t>::max(), .span = 0};
  int64_t work = 0, firstInput = std::numeric_limits<int64_t>::max();
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PipelineStage &stage = pipeline.stages[s];
    if (stage.device != device)
      continue;
    bound.first = std::min(bound.first, there[s]);
    firstInput = std::min(firstInput, back[s]);
    work += (stage.forward + stage.input + stage.weight) * pipeline.microBatches;
  }
  if (work == 0)
    return {};
  const int64_t idle = firstInput - bound.first - forwardsThatFit(pipeline, device);
  bound.span = work + std::max<int64_t>(0, idle);
  return bound;
}

std::vector<DeviceBound> boundsOf(const Pipeline &pipeline) {
  // When Forward and Input of the first micro-batch can begin, if nothing delays them.
  const size_t stages = pipeline.stages.size();
  std::vector<int64_t> there(stages, 0), back(stages, 0);
  for (size_t s = 1; s < stages; ++s)
    there[s] = there[s - 1] + pipeline.stages[s - 1].forward + pipeline.transfers[s - 1];
  back[stages - 1] = there[stages - 1] + pipeline.stages[stages - 1].forward;
  for (size_t s = stages - 1; s-- > 0;)
    back[s] = back[s + 1] + pipeline.stages[s + 1].input + pipeline.transfers[s];
  std::vector<DeviceBound> bounds;
  for (int device = 0; device < pipeline.devices; ++device)
    bounds.push_back(boundOf(pipeline, device, there, back));
  return bounds;
}

} // namespace

int64_t spanBound(const Pipeline &pipeline) {
  int64_t most = 0;
  for (const DeviceBound &bound : boundsOf(pipeline))
    most = std::max(most, bound.span);
  return most;
}

int64_t makespanBound(const Pipeline &pipeline) {
  int64_t most = lowerBound(pipelineTasks(pipeline));
  for (const DeviceBound &bound : boundsOf(pipeline))
    most = std::max(most, bound.first + bound.span);
  return most;
}

} // namespace tessera::strategies
