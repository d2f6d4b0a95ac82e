#include "strategies/pipeline/PipelineIO.h"

#include "strategies/time/JsonReader.h"

#include <algorithm>

namespace tessera::strategies {

namespace {

constexpr int kDeepest = 6;           // the format nests four levels deep
constexpr int kMostDevices = 1 << 20; // more than this have no stage

Pipeline readPipeline(JsonReader &read, const Json &json) {
  Pipeline pipeline;
  if (!read.isObject(json, "the file's content"))
    return pipeline;
  pipeline.microBatches = read.index(json, "micro_batches", "the pipeline");
  int devices = 0;
  for (const Json &item : read.list(json, "stages", "")) {
    const std::string where = "stage " + std::to_string(pipeline.stages.size());
    if (!read.isObject(item, where))
      return pipeline;
    PipelineStage stage;
    stage.device = item.contains("device") ? read.index(item, "device", where) : int(pipeline.stages.size());
    if (stage.device >= kMostDevices)
      read.fail(where + ": 'device' is out of range");
    stage.forward = read.whole(item, "forward", where, 0);
    stage.input = read.whole(item, "input", where, 0);
    stage.weight = read.whole(item, "weight", where, 0);
    stage.held = read.whole(item, "held", where, 0);
    stage.kept = read.whole(item, "kept", where, 0);
    devices = std::max(devices, stage.device + 1);
    pipeline.stages.push_back(stage);
    if (!read.error.empty())
      return pipeline;
  }
  pipeline.devices = devices;
  for (const Json &transfer : read.list(json, "transfers", ""))
    pipeline.transfers.push_back(read.whole(transfer, "a transfer"));
  if (!json.contains("transfers") && !pipeline.stages.empty())
    pipeline.transfers.assign(pipeline.stages.size() - 1, 0);
  for (const Json &limit : read.list(json, "limits", ""))
    pipeline.limits.push_back(limit.is_null() ? -1 : std::max<int64_t>(read.whole(limit, "a limit"), 0));
  if (!json.contains("limits"))
    pipeline.limits.assign(size_t(devices), -1);
  return pipeline;
}

} // namespace

std::optional<Pipeline> parsePipeline(const std::string &text, const std::string &name, std::string &error) {
  return readChecked<Pipeline>(text, name, kDeepest, error, readPipeline, checkPipeline);
}

std::string toCsv(const PipelineOrder &order) {
  std::string text;
  for (const auto &tasks : order) {
    for (size_t i = 0; i < tasks.size(); ++i)
      text += (i ? "," : "") + std::to_string(tasks[i].stage) + "FIW"[int(tasks[i].action)] +
              std::to_string(tasks[i].microBatch);
    text += "\n";
  }
  return text;
}

} // namespace tessera::strategies
