#include "compiler/pipeline/Calls.h"

#include "compiler/pipeline/ProgramParts.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Sections.h"
#include "runtime/support/File.h"
#include "strategies/cost/LocalCost.h"
#include "strategies/pipeline/CheckOrder.h"
#include "strategies/pipeline/FindOrder.h"
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/PipelineIO.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using tessera::strategies::Cost;

namespace tessera::compiler {

static const std::vector<std::string> &schedules() {
  static const std::vector<std::string> names = {"auto", "gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v"};
  return names;
}

/// "interleaved:2": how many stages a rank has; 0: something else.
static int chunksIn(llvm::StringRef schedule) {
  int chunks = 0;
  const bool good = schedule.consume_front("interleaved:") && !schedule.getAsInteger(10, chunks);
  return good && chunks >= 2 && chunks <= graph::kMostChunks ? chunks : 0;
}

llvm::Expected<PipelineOptions> parsePipeline(llvm::StringRef text) {
  PipelineOptions options;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  llvm::StringSet<> given;
  for (llvm::StringRef part : parts) {
    auto [name, value] = part.split('=');
    name = name.trim();
    value = value.trim();
    bool good = false;
    if (name == "micro") {
      int64_t number = 0;
      good = !value.getAsInteger(10, number);
      options.microBatches = number;
    } else if (part.trim() == "auto") {
      name = "schedule"; // it is chosen as well
      options.schedule.clear();
      good = true;
    } else if (name == "schedule") {
      options.schedule = value.str();
      options.returns = options.schedule == "zb-v";
      options.chunks = options.returns ? 2 : std::max(1, chunksIn(options.schedule));
      good = llvm::is_contained(schedules(), options.schedule) || options.chunks > 1 || options.isFile();
    }
    if (!good || !given.insert(name).second)
      return llvm::createStringError("--pipeline %s: expected schedule=NAME with %s or interleaved:V (2 to %d stages "
                                     "on every rank), schedule=FILE.csv, or auto; and micro=N, if it says the number "
                                     "of micro-batches",
                                     text.str().c_str(), llvm::join(schedules(), ", ").c_str(), graph::kMostChunks);
  }
  return options;
}

/// The most bytes of a file with an order: some million tasks.
static constexpr uint64_t kLargestOrder = uint64_t(1) << 26;

/// Sets how many stages lie in a line of the file's order. Returns an error's text.
static std::string findPlaces(PipelineOptions &options) {
  const strategies::PipelineOrder &order = *options.order;
  const int devices = int(order.size());
  strategies::PipelineTask last;
  size_t line = 0;
  for (auto [d, tasks] : llvm::enumerate(order))
    for (const strategies::PipelineTask &task : tasks)
      if (task.stage > last.stage) {
        last = task;
        line = d;
      }
  const int stages = last.stage + 1;
  if (stages % devices != 0 || stages / devices > graph::kMostChunks)
    return options.schedule + ": line " + std::to_string(line + 1) + ": " + strategies::taskText(last) +
           " is of stage " + std::to_string(last.stage) + ", but " + std::to_string(stages) + " stages cannot lie in " +
           std::to_string(devices) + (devices == 1 ? " line" : " lines") + "; every line has as many, at most " +
           std::to_string(graph::kMostChunks);
  options.chunks = stages / devices;
  // There and back if the last line has the next stage as well.
  options.returns = options.chunks == 2 && devices > 1 &&
                    llvm::any_of(order.back(), [&](const auto &task) { return task.stage == devices; });
  return "";
}

llvm::Error completePipeline(PipelineOptions &options, int64_t devices, int64_t microBatches) {
  auto fail = [&](const std::string &why) { return llvm::createStringError("--pipeline schedule=" + why); };
  if ((options.isFile() || options.chunks > 1) && microBatches < 2)
    return fail(options.schedule +
                ": one micro-batch leaves nothing to order; add --train and --accumulate N, or leave "
                "it out");
  if (options.returns && microBatches < 2 * devices)
    return fail(llvm::formatv("{0}: {1} micro-batches are fewer than twice the {2} places of the axis 'stage'; use "
                              "--accumulate {3} or more",
                              options.schedule, microBatches, devices, 2 * devices));
  if (!options.isFile()) {
    if (options.chunks == 1 || options.returns || microBatches % devices == 0)
      return llvm::Error::success();
    return fail(
        llvm::formatv("{0}: {1} micro-batches cannot go through the {2} places of the axis 'stage' in groups of "
                      "{2}; use --accumulate {3}",
                      options.schedule, microBatches, devices, llvm::alignTo(microBatches, devices)));
  }
  rt::Result<std::string> text = rt::readFile(options.schedule, kLargestOrder);
  if (!text)
    return fail(text.status().message());
  std::string error;
  options.order = strategies::parseOrder(*text, options.schedule, error);
  if (options.order && int64_t(options.order->size()) == devices)
    error = findPlaces(options);
  if (error.empty())
    error = strategies::checkOrder(strategies::evenPipeline({.devices = int(devices),
                                                             .microBatches = int(microBatches),
                                                             .chunks = options.chunks,
                                                             .returns = options.returns}),
                                   *options.order, options.schedule);
  return error.empty() ? llvm::Error::success() : fail(error);
}

/// The order of the options, of stages of which no times are known; nothing for "auto", which has the memory of 1f1b.
static std::optional<strategies::PipelineOrder> orderIn(const PipelineOptions &options,
                                                        const strategies::Pipeline &pipeline) {
  if (options.order)
    return options.order;
  for (strategies::NamedOrder &named : strategies::namedOrders(pipeline))
    if (llvm::StringRef(options.schedule).split(':').first == named.name)
      return std::move(named.order);
  return std::nullopt;
}

static strategies::Pipeline evenPipeline(const PipelineOptions &options, int64_t devices, int64_t microBatches) {
  return strategies::evenPipeline({.devices = int(devices),
                                   .microBatches = int(microBatches),
                                   .chunks = options.chunks,
                                   .returns = options.returns});
}

/// Of more moments of a device the cuts know but how much each of its stages holds at most, which is too much together.
static constexpr size_t kMostMoments = 64;

std::vector<strategies::StagePlace> placesOf(const PipelineOptions &options, int64_t devices, int64_t microBatches) {
  if (microBatches < 2 || options.schedule == "1f1b" || options.schedule == "zb-h1")
    return {};
  const strategies::Pipeline pipeline = evenPipeline(options, devices, microBatches);
  const std::optional<strategies::PipelineOrder> order = orderIn(options, pipeline);
  if (!order)
    return {};
  std::vector<strategies::StagePlace> places(static_cast<size_t>(devices));
  for (int s = 0; s < options.places(devices).stages(); ++s)
    places[size_t(options.places(devices).deviceOf(s))].stages.push_back(s);
  for (auto [place, held] : llvm::zip_equal(places, strategies::mostHeld(pipeline, *order))) {
    if (held.size() > kMostMoments) {
      for (const std::vector<int> &moment : held)
        for (size_t i = 0; i < moment.size(); ++i)
          held.front()[i] = std::max(held.front()[i], moment[i]);
      held.resize(1);
    }
    place.inFlight = std::move(held);
  }
  return places;
}

strategies::InFlight inFlightOf(const PipelineOptions &options, int64_t devices, int64_t microBatches) {
  using strategies::InFlight;
  const strategies::Pipeline pipeline = evenPipeline(options, devices, microBatches);
  const std::optional<strategies::PipelineOrder> order = orderIn(options, pipeline);
  if (!order)
    return InFlight::OneForwardOneBackward;
  strategies::StageProblem problem;
  problem.microBatches = int(microBatches);
  const std::vector<int> most = strategies::mostInFlight(pipeline, *order);
  for (InFlight named : {InFlight::OneForwardOneBackward, InFlight::ZeroBubble2}) {
    problem.inFlight = named;
    if (llvm::all_of(llvm::enumerate(most), [&](auto stage) {
          return stage.value() <= strategies::microBatchesInFlight(problem, 1, devices - 1 - int64_t(stage.index()));
        }))
      return named;
  }
  return InFlight::All;
}

int64_t heldMicroBatches(const PipelineOptions &options, int64_t devices, int64_t microBatches) {
  if (microBatches < 2)
    return 1;
  const strategies::Pipeline pipeline = evenPipeline(options, devices, microBatches);
  const std::vector<int> most = strategies::mostInFlight(
      pipeline, orderIn(options, pipeline).value_or(strategies::oneForwardOneBackward(pipeline)));
  return llvm::divideCeil(uint64_t(*llvm::max_element(most)), uint64_t(options.chunks));
}

llvm::SmallVector<ModuleOp> stagesOf(ModuleOp module) { return llvm::SmallVector<ModuleOp>(module.getOps<ModuleOp>()); }

namespace {

using graph::Section;

/// What a stage's function takes for one micro-batch, and the bytes that it sends, once.
struct StageTimes {
  Cost forward = 0, input = 0, weight = 0;
  int64_t sent = 0, largest = 0; // of all messages, of one
  int64_t held = 0, kept = 0;    // bytes of the forward pass that only Input, or also Weight reads
  int64_t made = 0; // bytes that Input makes and Weight reads: gradients, and what Input has computed again
  int64_t operators = 0;
  std::string first; // of the operators of the forward pass
};

/// The function of a device.
struct DeviceTimes {
  Cost before = 0, behind = 0; // all micro-batches
  std::vector<StageTimes> chunks;
  int64_t beside = 0; // messages of a step that run beside kernels

  /// Where the time of a section is told.
  Cost &of(Section section) {
    if (!graph::inBody(section))
      return section == Section::Begin ? before : behind;
    StageTimes &stage = chunks[size_t(graph::chunkOf(section))];
    return graph::isForward(section) ? stage.forward : graph::isWeight(section) ? stage.weight : stage.input;
  }
  Cost once() const { return before + behind; }
};

/// Adds what a step's results occupy from the forward pass to the backward pass.
void addHeld(const graph::DataFlow &flow, int s, llvm::ArrayRef<llvm::SmallVector<int, 2>> readers, StageTimes &stage) {
  for (int value : flow.steps[size_t(s)].makes) {
    bool held = false, kept = false;
    for (int reader : readers[size_t(value)]) {
      if (size_t(reader) >= flow.steps.size())
        continue;
      const Section section = flow.steps[size_t(reader)].section;
      kept |= section == Section::End || graph::isWeight(section);
      held |= !graph::isForward(section);
    }
    if (flow.values[size_t(value)].viewOf < 0 && !flow.values[size_t(value)].sum && held)
      (kept ? stage.kept : stage.held) += flow.values[size_t(value)].bytes;
  }
}

/// Adds what Weight needs of Input's results. As long as Weight waits, all of it is in memory.
void addMade(const graph::DataFlow &flow, DeviceTimes &device) {
  std::vector<bool> known(flow.values.size());
  for (const graph::DataFlow::Step &reader : flow.steps) {
    if (!graph::inBody(reader.section) || !graph::isWeight(reader.section))
      continue;
    for (int read : reader.reads) {
      const auto value = size_t(flow.root(read));
      const graph::DataFlow::Value &made = flow.values[value];
      if (known[value] || made.maker < 0 || made.sum)
        continue;
      known[value] = true;
      const Section section = flow.steps[size_t(made.maker)].section;
      if (graph::inBody(section) && !graph::isForward(section) && !graph::isWeight(section))
        device.chunks[size_t(graph::chunkOf(section))].made += made.bytes;
    }
  }
}

/// Where collectives run beside kernels, a section takes less time than all that it does.
void setBeside(const strategies::LocalCost &cost, const strategies::SentProgram &sent, DeviceTimes &device) {
  device.before = device.behind = 0;
  for (StageTimes &stage : device.chunks)
    stage.forward = stage.input = stage.weight = 0;
  for (const strategies::SectionTime &time : sent.beside->sections)
    device.of(time.section) += time.ns;
  const graph::MessageFlow flow(cost.looped.flow, sent.messages);
  for (auto [step, beside] : llvm::enumerate(sent.beside->beside))
    if (beside)
      device.beside += graph::inBody(flow.flow.steps[step].section) ? cost.program.parts : 1;
}

llvm::Expected<DeviceTimes> priceDevice(func::FuncOp func, const PipelineCosts &costs) {
  llvm::Expected<strategies::LocalCost> cost = strategies::LocalCost::of(func, costs.stage, &costs.all);
  if (!cost)
    return cost.takeError();
  // As the plan is made (strategies::sentCollectives), so that its steps take what the order counts.
  const strategies::SentProgram sent = sendProgram(costs.stage, cost->toSend(), costs.join);
  const std::vector<Cost> times = strategies::operatorTimes(*cost, costs.stage, sent.messages);
  DeviceTimes device;
  device.chunks.resize(size_t(costs.places.chunks));
  const ProgramParts parts(func);
  const graph::FunctionFlow &program = parts.program;
  const bool staged = func->hasAttr(graph::kMicroBatchesAttr);
  const auto readers = program.flow.readers();
  for (auto [s, op] : llvm::enumerate(program.operators)) {
    const Section section = program.flow.steps[s].section;
    const bool inBody = graph::inBody(section), counts = inBody || !staged;
    StageTimes &stage = device.chunks[inBody ? size_t(graph::chunkOf(section)) : 0];
    ++stage.operators;
    device.of(section) += times[s];
    if (counts && stage.first.empty() && times[s] > 0 && !parts.free[s])
      stage.first = graph::nameOf(op);
    if (auto send = dyn_cast<dist::SendOp>(op); send && counts) {
      const int64_t bytes = program.flow.values[size_t(program.index.lookup(send.getX()))].bytes;
      stage.sent += bytes;
      stage.largest = std::max(stage.largest, bytes);
    }
    if (inBody && graph::isForward(section))
      addHeld(program.flow, int(s), readers, stage);
  }
  addMade(program.flow, device);
  if (sent.beside)
    setBeside(*cost, sent, device);
  return device;
}

strategies::Pipeline pipelineOf(llvm::ArrayRef<DeviceTimes> devices, const PipelineCosts &costs, int64_t parts) {
  strategies::Pipeline pipeline;
  pipeline.devices = int(devices.size());
  pipeline.microBatches = int(parts);
  pipeline.limits.assign(devices.size(), -1);
  int64_t largest = 0; // of the stage before
  for (int s = 0; s < costs.places.stages(); ++s) {
    const int device = costs.places.deviceOf(s);
    const StageTimes &stage = devices[size_t(device)].chunks[size_t(costs.places.chunkOf(s))];
    if (s > 0)
      pipeline.transfers.push_back(
          device == pipeline.stages.back().device ? 0 : costs.message(std::max(largest, stage.largest)));
    pipeline.stages.push_back(
        {device, stage.forward, stage.input, stage.weight, stage.held + stage.kept, stage.kept + stage.made});
    largest = stage.largest;
  }
  return pipeline;
}

/// The order of a file or by its name, or the best that is found in the memory that 1f1b needs. Sets `least` to what no
/// order of that memory beats; 0 if none was searched.
llvm::Expected<strategies::PipelineOrder> chooseOrder(strategies::Pipeline pipeline, const PipelineOptions &options,
                                                      Cost &least) {
  const std::string &schedule = options.schedule;
  least = 0;
  if (options.order) // completePipeline has checked it
    return *options.order;
  if (schedule == "auto") {
    pipeline.limits = strategies::runInOrder(pipeline, strategies::oneForwardOneBackward(pipeline)).peak;
    strategies::FoundOrder found = strategies::findOrder(pipeline, strategies::Goal::Makespan);
    if (found.order.empty())
      return llvm::createStringError("internal error: no order of the pipeline was found");
    least = found.lowerBound;
    return std::move(found.order);
  }
  for (strategies::NamedOrder &named : strategies::namedOrders(pipeline))
    if (llvm::StringRef(schedule).split(':').first == named.name)
      return std::move(named.order);
  return llvm::createStringError("internal error: no order '" + schedule + "'");
}

Section sectionOf(strategies::Action action, int chunk) {
  return action == strategies::Action::Forward ? graph::forwardOf(chunk)
         : action == strategies::Action::Input ? graph::inputOf(chunk)
                                               : graph::weightOf(chunk);
}

/// `before`: what the device does before all micro-batches. As in stepOf, each begins with them when it has done that.
void setCalls(func::FuncOp func, llvm::ArrayRef<strategies::PipelineTask> tasks, const strategies::StagePlaces &places,
              const strategies::Pipeline &pipeline, const strategies::PipelineRun &run, Cost before) {
  llvm::SmallVector<int64_t> calls, times;
  auto call = [&](Section section, int64_t index, Cost begin) {
    calls.append({int64_t(graph::placeOf(section, places.chunks)), index});
    times.push_back(begin);
  };
  call(Section::Begin, 0, 0);
  Cost end = before;
  for (const strategies::PipelineTask &task : tasks) {
    const Cost begin = before + run.start[size_t(strategies::taskOf(pipeline, task))];
    call(sectionOf(task.action, places.chunkOf(task.stage)), task.microBatch, begin);
    end = begin + strategies::durationOf(pipeline.stages[size_t(task.stage)], task.action);
  }
  call(Section::End, 0, end);
  Builder builder(func.getContext());
  func->setAttr(dist::kCallsAttr, builder.getDenseI64ArrayAttr(calls));
  func->setAttr(graph::kPredictedAttr, builder.getDenseI64ArrayAttr(times));
}

/// The report of all stages of a function.
std::vector<StageReport> reportOf(llvm::ArrayRef<DeviceTimes> devices, const strategies::StagePlaces &places) {
  std::vector<StageReport> reports;
  for (int s = 0; s < places.stages(); ++s) {
    StageReport &out = reports.emplace_back();
    const int chunk = places.chunkOf(s);
    out.device = places.deviceOf(s);
    for (size_t a = 0; a < out.sections.size(); ++a)
      out.sections[a] = int64_t(graph::placeOf(sectionOf(strategies::Action(a), chunk), places.chunks));
    const DeviceTimes &device = devices[size_t(out.device)];
    const StageTimes &stage = device.chunks[size_t(chunk)];
    out.first = stage.first;
    out.operators = stage.operators;
    out.forward = stage.forward;
    out.input = stage.input;
    out.weight = stage.weight;
    out.once = chunk == 0 ? device.once() : 0;
    out.beside = chunk == 0 ? device.beside : 0;
    out.bytesSent = stage.sent;
    out.held = stage.held + stage.kept;
    out.kept = stage.kept + stage.made;
  }
  return reports;
}

/// The time of a function without micro-batches, for which the stages run one after the other.
Cost oneAfterTheOther(llvm::ArrayRef<StageReport> stages, const PipelineCosts &costs) {
  Cost time = 0;
  for (const StageReport &stage : stages)
    time += stage.once + (stage.bytesSent > 0 ? costs.message(stage.bytesSent) : 0);
  return time;
}

/// Orders the training step, and sets what follows from the order.
llvm::Error orderFunction(llvm::ArrayRef<ModuleOp> modules, llvm::ArrayRef<DeviceTimes> devices,
                          const PipelineCosts &costs, const PipelineOptions &options, PipelineReport &report) {
  const strategies::Pipeline pipeline = pipelineOf(devices, costs, report.microBatches);
  if (std::string error = strategies::checkPipeline(pipeline); !error.empty())
    return llvm::createStringError("internal error: the pipeline: " + error);
  llvm::Expected<strategies::PipelineOrder> order = chooseOrder(pipeline, options, report.least);
  if (!order)
    return order.takeError();
  const strategies::PipelineRun run = strategies::runInOrder(pipeline, *order);
  if (!run.error.empty())
    return llvm::createStringError("internal error: the pipeline's order: " + run.error);
  std::vector<Cost> once;
  for (const DeviceTimes &device : devices)
    once.push_back(device.once());
  const strategies::PipelineStep step = strategies::stepOf(pipeline, run, once);
  report.predicted = step.time;
  if (report.least > 0) // as in stepOf
    report.least += *llvm::max_element(once);
  report.bubble = step.bubble;
  report.transfers = pipeline.transfers;
  report.inFlight = strategies::mostInFlight(pipeline, *order);
  for (auto [module, tasks, device] : llvm::zip_equal(modules, *order, devices))
    setCalls(mainFunction(module), tasks, costs.places, pipeline, run, device.before);
  return llvm::Error::success();
}

} // namespace

llvm::Error orderStages(ModuleOp module, const PipelineCosts &costs, const PipelineOptions &options,
                        PipelineReport &report, llvm::ArrayRef<PipelineCosts> own) {
  report = {};
  report.schedule = options.schedule;
  llvm::SmallVector<ModuleOp> modules = stagesOf(module);
  const std::string main = mainFunction(modules.front()).getName().str();
  for (func::FuncOp func : modules.front().getOps<func::FuncOp>()) {
    std::vector<DeviceTimes> devices;
    for (auto [d, device] : llvm::enumerate(modules)) {
      llvm::Expected<DeviceTimes> priced =
          priceDevice(device.lookupSymbol<func::FuncOp>(func.getName()), own.empty() ? costs : own[d]);
      if (!priced)
        return priced.takeError();
      devices.push_back(std::move(*priced));
    }
    std::vector<StageReport> reports = reportOf(devices, costs.places);
    Cost &step = report.steps[func.getName().str()] = oneAfterTheOther(reports, costs);
    if (func.getName() != main)
      continue;
    report.stages = std::move(reports);
    if (auto staged = func->getAttrOfType<IntegerAttr>(graph::kMicroBatchesAttr)) {
      report.microBatches = staged.getInt();
      if (llvm::Error e = orderFunction(modules, devices, costs, options, report))
        return e;
      step = report.predicted;
      continue;
    }
    report.schedule = "none";
    report.predicted = step;
    Cost busy = 0;
    for (const DeviceTimes &device : devices)
      busy += device.once();
    if (step > 0)
      report.bubble = 1 - double(busy) / (double(step) * double(modules.size()));
  }
  return llvm::Error::success();
}

} // namespace tessera::compiler
