#include "compiler/pipeline/Calls.h"

#include "compiler/pipeline/ProgramParts.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/Sections.h"
#include "runtime/support/File.h"
#include "strategies/pipeline/CheckOrder.h"
#include "strategies/pipeline/FindOrder.h"
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/PipelineIO.h"

#include "llvm/ADT/StringExtras.h"

#include <array>

using namespace mlir;
using tessera::strategies::Cost;

namespace tessera::compiler {

static const std::vector<std::string> &schedules() {
  static const std::vector<std::string> names = {"auto", "gpipe", "1f1b", "zb-h1", "zb-h2"};
  return names;
}

llvm::Expected<PipelineOptions> parsePipeline(llvm::StringRef text) {
  PipelineOptions options;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    auto [name, value] = part.split('=');
    options.schedule = value.trim().str();
    if (name.trim() != "schedule" || (!llvm::is_contained(schedules(), options.schedule) && !options.isFile()))
      return llvm::createStringError("--pipeline %s: expected schedule=NAME with %s, or schedule=FILE.csv",
                                     text.str().c_str(), llvm::join(schedules(), ", ").c_str());
  }
  return options;
}

/// The most bytes of a file with an order: some million tasks.
static constexpr uint64_t kLargestOrder = uint64_t(1) << 26;

llvm::Error readOrder(PipelineOptions &options, int64_t stages, int64_t microBatches) {
  if (!options.isFile())
    return llvm::Error::success();
  if (microBatches < 2)
    return llvm::createStringError("--pipeline schedule=%s: one micro-batch leaves nothing to order; add --train and "
                                   "--accumulate N, or leave it out",
                                   options.schedule.c_str());
  rt::Result<std::string> text = rt::readFile(options.schedule, kLargestOrder);
  if (!text)
    return llvm::createStringError("--pipeline schedule=%s", text.status().message().c_str());
  std::string error;
  options.order = strategies::parseOrder(*text, options.schedule, error);
  if (options.order)
    error =
        strategies::checkOrder(strategies::evenPipeline({.devices = int(stages), .microBatches = int(microBatches)}),
                               *options.order, options.schedule);
  return error.empty() ? llvm::Error::success() : llvm::createStringError("--pipeline schedule=" + error);
}

llvm::SmallVector<ModuleOp> stagesOf(ModuleOp module) { return llvm::SmallVector<ModuleOp>(module.getOps<ModuleOp>()); }

namespace {

using graph::Section;

/// What a stage's function takes in each section, and the bytes that it sends, once.
struct StageTimes {
  std::array<Cost, graph::kSections> time = {};
  int64_t sent = 0, largest = 0; // for one micro-batch: of all messages, of one
  int64_t held = 0, kept = 0;    // bytes of the forward pass that only Input, or also Weight reads
};

llvm::Expected<StageTimes> priceStage(func::FuncOp func, const PipelineCosts &costs, StageReport &report) {
  llvm::Expected<std::vector<Cost>> times = operatorTimes(func, costs);
  if (!times)
    return times.takeError();
  StageTimes stage;
  const ProgramParts parts(func);
  const graph::FunctionFlow &program = parts.program;
  const bool staged = func->hasAttr(graph::kMicroBatchesAttr);
  const auto readers = program.flow.readers();
  for (auto [s, op] : llvm::enumerate(program.operators)) {
    const Section section = program.flow.steps[s].section;
    stage.time[size_t(section)] += (*times)[s];
    ++report.operators;
    const bool counts = !staged || graph::inBody(section);
    if (counts && report.first.empty() && (*times)[s] > 0 && !parts.free[s])
      report.first = graph::nameOf(op);
    if (auto send = dyn_cast<dist::SendOp>(op); send && counts) {
      const int64_t bytes = program.flow.values[size_t(program.index.lookup(send.getX()))].bytes;
      stage.sent += bytes;
      stage.largest = std::max(stage.largest, bytes);
    }
    if (section != Section::Body)
      continue;
    for (int value : program.flow.steps[s].makes) {
      Section last = Section::Body;
      for (int reader : readers[size_t(value)])
        if (size_t(reader) < program.flow.steps.size())
          last = std::max(last, program.flow.steps[size_t(reader)].section);
      if (program.flow.values[size_t(value)].viewOf >= 0 || program.flow.values[size_t(value)].sum)
        continue;
      (last == Section::Input ? stage.held : stage.kept) +=
          last == Section::Body ? 0 : program.flow.values[size_t(value)].bytes;
    }
  }
  return stage;
}

strategies::Pipeline pipelineOf(llvm::ArrayRef<StageTimes> stages, const PipelineCosts &costs, int64_t parts) {
  strategies::Pipeline pipeline;
  pipeline.devices = int(stages.size());
  pipeline.microBatches = int(parts);
  pipeline.limits.assign(stages.size(), -1);
  for (auto [s, stage] : llvm::enumerate(stages)) {
    pipeline.stages.push_back({int(s), stage.time[size_t(Section::Body)], stage.time[size_t(Section::Input)],
                               stage.time[size_t(Section::Weight)], stage.held + stage.kept, stage.kept});
    if (s > 0)
      pipeline.transfers.push_back(costs.message(std::max(stages[s - 1].largest, stage.largest)));
  }
  return pipeline;
}

/// The order of a file or by its name, or the best that is found in the memory that 1f1b needs.
llvm::Expected<strategies::PipelineOrder> chooseOrder(strategies::Pipeline pipeline, const PipelineOptions &options) {
  const std::string &schedule = options.schedule;
  if (options.order) // readOrder has checked it
    return *options.order;
  if (schedule == "auto") {
    pipeline.limits = strategies::runInOrder(pipeline, strategies::oneForwardOneBackward(pipeline)).peak;
    strategies::FoundOrder found = strategies::findOrder(pipeline, strategies::Goal::Makespan);
    if (found.order.empty())
      return llvm::createStringError("internal error: no order of the pipeline was found");
    return std::move(found.order);
  }
  for (strategies::NamedOrder &named : strategies::namedOrders(pipeline))
    if (schedule == named.name)
      return std::move(named.order);
  return llvm::createStringError("internal error: no order '" + schedule + "'");
}

void setCalls(func::FuncOp func, llvm::ArrayRef<strategies::PipelineTask> tasks) {
  llvm::SmallVector<int64_t> calls = {int64_t(Section::Begin), 0};
  for (const strategies::PipelineTask &task : tasks)
    calls.append({int64_t(Section::Body) + int64_t(task.action), task.microBatch});
  calls.append({int64_t(Section::End), 0});
  func->setAttr(dist::kCallsAttr, Builder(func.getContext()).getDenseI64ArrayAttr(calls));
}

/// Prices the function of this name in all stages.
llvm::Expected<std::vector<StageTimes>> priceStages(llvm::ArrayRef<ModuleOp> modules, llvm::StringRef name,
                                                    const PipelineCosts &costs, std::vector<StageReport> &reports) {
  std::vector<StageTimes> stages;
  for (ModuleOp module : modules) {
    StageReport &out = reports.emplace_back();
    llvm::Expected<StageTimes> priced = priceStage(module.lookupSymbol<func::FuncOp>(name), costs, out);
    if (!priced)
      return priced.takeError();
    auto time = [&](Section section) { return priced->time[size_t(section)]; };
    out.forward = time(Section::Body);
    out.input = time(Section::Input);
    out.weight = time(Section::Weight);
    out.once = time(Section::Begin) + time(Section::End);
    out.device = int(stages.size());
    out.sections = {int64_t(Section::Body), int64_t(Section::Input), int64_t(Section::Weight)};
    out.bytesSent = priced->sent;
    out.held = priced->held + priced->kept;
    out.kept = priced->kept;
    stages.push_back(*priced);
  }
  return stages;
}

/// The time of a function without micro-batches, for which the stages run one after the other.
Cost oneAfterTheOther(llvm::ArrayRef<StageReport> stages, const PipelineCosts &costs) {
  Cost time = 0;
  for (const StageReport &stage : stages)
    time += stage.once + (stage.bytesSent > 0 ? costs.message(stage.bytesSent) : 0);
  return time;
}

/// Orders the function of the report's stages, and sets what follows from the order.
llvm::Error orderFunction(llvm::ArrayRef<func::FuncOp> functions, llvm::ArrayRef<StageTimes> stages,
                          const PipelineCosts &costs, const PipelineOptions &options, PipelineReport &report) {
  const strategies::Pipeline pipeline = pipelineOf(stages, costs, report.microBatches);
  if (std::string error = strategies::checkPipeline(pipeline); !error.empty())
    return llvm::createStringError("internal error: the pipeline: " + error);
  llvm::Expected<strategies::PipelineOrder> order = chooseOrder(pipeline, options);
  if (!order)
    return order.takeError();
  const strategies::PipelineRun run = strategies::runInOrder(pipeline, *order);
  if (!run.error.empty())
    return llvm::createStringError("internal error: the pipeline's order: " + run.error);
  std::vector<Cost> once;
  for (const StageReport &stage : report.stages)
    once.push_back(stage.once);
  const strategies::PipelineStep step = strategies::stepOf(pipeline, run, once);
  report.predicted = step.time;
  report.bubble = step.bubble;
  report.transfers = pipeline.transfers;
  report.inFlight = strategies::mostInFlight(pipeline, *order);
  for (auto [func, tasks] : llvm::zip_equal(functions, *order))
    setCalls(func, tasks);
  return llvm::Error::success();
}

} // namespace

llvm::Error orderStages(ModuleOp module, const PipelineCosts &costs, const PipelineOptions &options,
                        PipelineReport &report) {
  report = {};
  report.schedule = options.schedule;
  llvm::SmallVector<ModuleOp> modules = stagesOf(module);
  const std::string main = mainFunction(modules.front()).getName().str();
  for (func::FuncOp func : modules.front().getOps<func::FuncOp>()) {
    std::vector<StageReport> reports;
    llvm::Expected<std::vector<StageTimes>> stages = priceStages(modules, func.getName(), costs, reports);
    if (!stages)
      return stages.takeError();
    Cost &step = report.steps[func.getName().str()] = oneAfterTheOther(reports, costs);
    if (func.getName() != main)
      continue;
    report.stages = std::move(reports);
    if (auto staged = func->getAttrOfType<IntegerAttr>(graph::kMicroBatchesAttr)) {
      report.microBatches = staged.getInt();
      llvm::SmallVector<func::FuncOp> functions;
      for (ModuleOp stage : modules)
        functions.push_back(mainFunction(stage));
      if (llvm::Error e = orderFunction(functions, *stages, costs, options, report))
        return e;
      step = report.predicted;
      continue;
    }
    report.schedule = "none";
    report.predicted = step;
    Cost busy = 0;
    for (const StageReport &stage : report.stages)
      busy += stage.once;
    if (step > 0)
      report.bubble = 1 - double(busy) / (double(step) * double(modules.size()));
  }
  return llvm::Error::success();
}

} // namespace tessera::compiler
