// infer: the model's outputs as .npy files.
#include "runtime/data/NpyFile.h"
#include "runtime/executor/GlobalTensors.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Session.h"
#include "runtime/tensor/ConvertElements.h"

namespace tessera::rt {
namespace {

/// One output of all batches. They follow one another along dimension 0 if that is the batch, else
/// along a new dimension.
struct OutputFile {
  int tensor;
  plan::DType type; // in the file: NumPy knows no bf16
  plan::DType held;
  std::vector<int64_t> shape; // of one batch
  bool stacked;               // a new dimension counts batches
  std::optional<NpyWriter> writer;

  Status write(int64_t batch, const std::vector<char> &values) {
    std::vector<int64_t> offset(shape.size(), 0), box = shape;
    if (stacked) {
      offset.insert(offset.begin(), batch);
      box.insert(box.begin(), 1);
    } else if (!shape.empty()) {
      offset[0] = batch * shape[0];
    }
    if (type == held)
      return writer->writeBox(offset, box, values.data());
    auto count = size_t(elementsOf(shape).value_or(0));
    std::vector<char> converted(count * bytesPerElement(type));
    convertElements(values.data(), held, converted.data(), type, count);
    return writer->writeBox(offset, box, converted.data());
  }
};

/// "output2.npy"; with leading zeros where there are more than ten, so that names sort in order.
std::string outputName(size_t index, size_t count) {
  std::string number = std::to_string(index);
  size_t width = std::to_string(count - 1).size();
  return "output" + std::string(width - number.size(), '0') + number + ".npy";
}

} // namespace

Status infer(Session &s) {
  const plan::Plan &plan = s.executor.plan();
  std::string name = findProgram(plan, "infer") >= 0 ? "infer" : "eval";
  int program = findProgram(plan, name);
  std::vector<int> outputs = s.tensors.of(plan::OUTPUT, name);
  if (program < 0 || outputs.empty())
    return Status::error("the plan has no program that gives the model's outputs: compile without "
                         "--train");
  Result<Feed> feed = Feed::open(s.executor, s.tensors, name, s.options.data, s.dataOptions(false));
  if (!feed)
    return feed.status();
  int64_t batches = feed->source().batchesPerEpoch();
  if (s.options.steps > 0)
    batches = std::min(batches, s.options.steps);

  const int64_t batch = feed->source().batchSize();
  std::vector<OutputFile> files;
  for (int tensor : outputs) {
    plan::DType held = s.executor.heldType(s.tensors.type(tensor));
    OutputFile file{tensor, held == plan::BF16 ? plan::F32 : held,
                    held,   toVector(s.tensors.binding(tensor).global_shape()),
                    false,  std::nullopt};
    bool batched = !file.shape.empty() && file.shape[0] == batch;
    file.stacked = batches > 1 && !batched;
    files.push_back(std::move(file));
  }
  if (s.leader()) {
    s.console.line("data: " + feed->source().describe());
    TESSERA_RETURN_IF_ERROR(makeDirectory(s.options.output));
    for (size_t i = 0; i < files.size(); ++i) {
      std::vector<int64_t> whole = files[i].shape;
      if (files[i].stacked)
        whole.insert(whole.begin(), batches);
      else if (!whole.empty())
        whole[0] *= batches;
      Result<NpyWriter> writer =
          NpyWriter::create(s.options.output + "/" + outputName(i, files.size()), files[i].type, whole);
      if (!writer)
        return writer.status();
      files[i].writer.emplace(std::move(*writer));
    }
  }
  double begin = now();
  std::vector<double> latencies; // of each batch, on the slowest rank
  std::vector<char> global;
  for (int64_t batch = 0; batch < batches; ++batch) {
    TESSERA_RETURN_IF_ERROR(feed->next());
    TESSERA_RETURN_IF_ERROR(s.executor.feedStep(name, s.firstStep()));
    double start = now();
    TESSERA_RETURN_IF_ERROR(s.executor.run(program, [&] {
      if (batch + 1 < batches)
        feed->ahead();
    }));
    double seconds = now() - start;
    TESSERA_RETURN_IF_ERROR(s.executor.everyone().allReduce(&seconds, &seconds, 1, plan::F64, plan::MAX));
    latencies.push_back(seconds);
    for (OutputFile &file : files) {
      TESSERA_RETURN_IF_ERROR(gatherGlobal(s.executor, s.tensors, file.tensor, global));
      if (s.leader())
        TESSERA_RETURN_IF_ERROR(file.write(batch, global));
    }
    if (s.leader()) {
      s.console.transient("batch " + std::to_string(batch + 1) + "/" + std::to_string(batches));
      TESSERA_RETURN_IF_ERROR(s.console.log({{"infer", 1}, {"step", double(batch + 1)}, {"seconds", seconds}}));
    }
    Result<int> stop = anyInterrupted(s.executor.everyone());
    if (!stop)
      return stop.status();
    if (*stop) { // incomplete files never get their names
      if (s.leader())
        s.result.interrupted = *stop;
      return Status();
    }
  }
  if (!s.leader())
    return Status();
  for (OutputFile &file : files)
    TESSERA_RETURN_IF_ERROR(file.writer->commit());
  s.result.steps = batches;
  s.result.latency = latencyOf(latencies, uint64_t(batch));
  s.console.line("wrote " + std::to_string(files.size()) + (files.size() == 1 ? " output of " : " outputs of ") +
                 std::to_string(batches) + (batches == 1 ? " batch to " : " batches to ") + s.options.output + " in " +
                 durationText(now() - begin));
  s.console.line(latencyText(*s.result.latency));
  std::vector<std::pair<std::string, double>> fields = latencyFields(*s.result.latency);
  fields.insert(fields.begin(), {{"infer", 1}, {"step", double(batches)}});
  return s.console.log(fields);
}

} // namespace tessera::rt
