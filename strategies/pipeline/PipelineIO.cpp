#include "strategies/pipeline/PipelineIO.h"

#include "strategies/time/JsonReader.h"

#include <algorithm>

namespace tessera::strategies {

namespace {

constexpr int kDeepest = 6;           // the format nests four levels deep
constexpr int kMostDevices = 1 << 20; // more than this have no stage
constexpr char kActions[] = "FIW";    // by Action
constexpr size_t kMostDigits = 6, kShownCell = 24;

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

/// A cell's number at `at`, which moves behind it; -1: there is none, or too large a one.
int numberAt(std::string_view cell, size_t &at) {
  int number = 0;
  const size_t begin = at;
  for (; at < cell.size() && cell[at] >= '0' && cell[at] <= '9' && at - begin < kMostDigits; ++at)
    number = number * 10 + (cell[at] - '0');
  return at == begin ? -1 : number;
}

/// Appends the tasks of a cell. Returns whether it is one.
bool readCell(std::string_view cell, std::vector<PipelineTask> &tasks) {
  size_t at = 0;
  const int stage = numberAt(cell, at);
  const char action = at < cell.size() ? cell[at++] : ' ';
  const int microBatch = numberAt(cell, at);
  const bool whole = action == 'B';
  const size_t place = std::string_view(kActions).find(action);
  if (stage < 0 || microBatch < 0 || at != cell.size() || (!whole && place == std::string_view::npos))
    return false;
  tasks.push_back({whole ? Action::Input : Action(place), stage, microBatch});
  if (whole)
    tasks.push_back({Action::Weight, stage, microBatch});
  return true;
}

std::string_view trimmed(std::string_view text) {
  constexpr char kBlanks[] = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

} // namespace

std::optional<Pipeline> parsePipeline(const std::string &text, const std::string &name, std::string &error) {
  return readChecked<Pipeline>(text, name, kDeepest, error, readPipeline, checkPipeline);
}

std::string taskText(PipelineTask task) {
  return std::to_string(task.stage) + kActions[int(task.action)] + std::to_string(task.microBatch);
}

std::string toCsv(const PipelineOrder &order) {
  std::string text;
  for (const auto &tasks : order) {
    for (size_t i = 0; i < tasks.size(); ++i)
      text += (i ? "," : "") + taskText(tasks[i]);
    text += "\n";
  }
  return text;
}

std::optional<PipelineOrder> parseOrder(std::string_view text, const std::string &name, std::string &error) {
  PipelineOrder order;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.remove_suffix(1);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const std::string where = name + ": line " + std::to_string(order.size() + 1);
    std::vector<PipelineTask> &tasks = order.emplace_back();
    for (size_t at = 0; at <= line.size();) {
      const size_t comma = std::min(line.find(',', at), line.size());
      const std::string_view cell = trimmed(line.substr(at, comma - at));
      at = comma + 1;
      if (cell.empty() || readCell(cell, tasks))
        continue;
      error = where + ": '" + std::string(cell.substr(0, kShownCell)) + (cell.size() > kShownCell ? "..." : "") +
              "' is no task; write 2F0 for the forward pass of micro-batch 0 in stage 2, 2I0 for the gradients of its "
              "inputs, 2W0 for those of its weights";
      return std::nullopt;
    }
    if (tasks.empty()) {
      error = where + " has no task; write a line for each place of the axis 'stage', and no other";
      return std::nullopt;
    }
    begin = end + 1;
  }
  return order;
}

} // namespace tessera::strategies
