//===- random_stages_test.cpp - random graphs in pipelines equal themselves without stages --------===//
//
// Each graph of RandomGraph.h that is trained in micro-batches runs under random strategies on a mesh of one or two
// ranks, and the same once more in 2 to 4 stages of such meshes, or in 2 or 3 times as many that share them: with a
// random or the searched cut, and a random schedule or one that was changed at random. Losses, outputs, parameters and
// states must have the same bits.
//
//   TESSERA_RANDOM_GRAPHS=1000 TESSERA_RANDOM_SEED=5000 random_stages_test     more graphs, or others
//
// A failure names its seed: TESSERA_RANDOM_GRAPHS=1 TESSERA_RANDOM_SEED=<it> repeats it and prints the program.
//
//===----------------------------------------------------------------------------------------------===//
#include "test/e2e/RandomGraph.h"
#include "test/e2e/RandomStrategies.h"

#include "compiler/emit/Plans.h"
#include "compiler/partition/Passes.h"
#include "compiler/pipeline/Calls.h"
#include "compiler/pipeline/Passes.h"
#include "compiler/pipeline/ProgramParts.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/pipeline/CheckOrder.h"
#include "strategies/pipeline/NamedOrders.h"

#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

namespace {

constexpr int kWorkers = 4; // more than cores: ranks of small programs mostly wait for each other

unsigned fromEnvironment(const char *name, unsigned otherwise) {
  const char *text = std::getenv(name);
  return text ? unsigned(std::strtoul(text, nullptr, 10)) : otherwise;
}

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

void orThrow(llvm::Error error) {
  if (error)
    throw std::runtime_error(llvm::toString(std::move(error)));
}

struct Tally {
  unsigned run = 0, searched = 0, onTwo = 0, changed = 0, tooSmall = 0;
  std::map<std::string, unsigned> schedules;

  void operator+=(const Tally &o) {
    run += o.run, searched += o.searched, onTwo += o.onTwo, changed += o.changed, tooSmall += o.tooSmall;
    for (const auto &[name, count] : o.schedules)
      schedules[name] += count;
  }
};

/// How a graph is run.
struct Trial {
  int devices = 2;          // places on the axis of the stages
  const char *mesh = "a=1"; // of a stage
  bool fuse = true, searched = false, changed = false;
  compiler::PipelineOptions pipeline;

  strategies::StagePlaces places() const { return pipeline.places(devices); }
  std::string str() const {
    return (llvm::Twine("stage=") + llvm::Twine(devices) + "," + mesh + (fuse ? ", fused" : "") +
            (searched ? ", searched" : "") + ", " + pipeline.schedule + (changed ? ", changed" : ""))
        .str();
  }
};

/// Cuts the forward pass of @train at random: an order of its operators in which nothing waits for anything behind it,
/// in parts. A state that micro-batches carry on stays in one part. Returns whether there are as many.
bool cutRandomly(ModuleOp local, int stages, std::mt19937 &random) {
  const compiler::ProgramParts parts(compiler::mainFunction(local));
  const graph::DataFlow &flow = parts.program.flow;
  const auto readers = flow.readers();
  auto counts = [&](int s) { return parts.forward[size_t(s)] && !parts.free[size_t(s)]; };
  std::vector<int> left(flow.steps.size(), 0); // forward operators that a step waits for
  for (size_t s = 0; s < flow.steps.size(); ++s)
    for (int value : flow.steps[s].reads)
      if (const int maker = flow.values[size_t(value)].maker; maker >= 0 && counts(maker))
        ++left[s];
  std::vector<int> ready, order, place(flow.steps.size(), -1);
  for (size_t s = 0; s < flow.steps.size(); ++s)
    if (counts(int(s)) && left[s] == 0)
      ready.push_back(int(s));
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const int s = ready.back();
    ready.pop_back();
    place[size_t(s)] = int(order.size());
    order.push_back(s);
    for (int value : flow.steps[size_t(s)].makes)
      for (int reader : readers[size_t(value)])
        if (size_t(reader) < flow.steps.size() && --left[size_t(reader)] == 0 && counts(reader))
          ready.push_back(reader);
  }
  std::vector<bool> allowed(order.size(), true); // a stage may begin here
  for (auto [old, next] : flow.updates) {
    const int maker = flow.values[size_t(next)].maker;
    if (maker < 0 || place[size_t(maker)] < 0)
      continue;
    for (int reader : readers[size_t(old)])
      if (size_t(reader) < flow.steps.size() && place[size_t(reader)] >= 0) {
        const auto [first, last] = std::minmax(place[size_t(reader)], place[size_t(maker)]);
        std::fill(allowed.begin() + first + 1, allowed.begin() + last + 1, false);
      }
  }
  std::vector<int> begins;
  for (size_t at = 1; at < order.size(); ++at)
    if (allowed[at])
      begins.push_back(int(at));
  if (int(begins.size()) < stages - 1)
    return false;
  std::shuffle(begins.begin(), begins.end(), random);
  begins.resize(size_t(stages - 1));
  llvm::sort(begins);
  Builder builder(local.getContext());
  for (auto [at, s] : llvm::enumerate(order)) {
    const int64_t stage = llvm::upper_bound(begins, int(at)) - begins.begin();
    parts.program.operators[size_t(s)]->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(stage));
  }
  return true;
}

/// Runs passes, and throws what they say.
void runPasses(ModuleOp module, llvm::function_ref<void(PassManager &)> build) {
  std::string why;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &d) {
    why += d.str() + "\n";
    return success();
  });
  PassManager manager(module.getContext());
  build(manager);
  if (failed(manager.run(module)))
    throw std::runtime_error("passes: " + why);
}

/// From annotated to local, before anything is cut.
void makeLocal(ModuleOp module) {
  runPasses(module, [](PassManager &manager) {
    compiler::buildReshardPipeline(manager);
    compiler::buildWholePipeline(manager, {});
  });
}

dist::Mesh meshOf(const llvm::Twine &text) { return llvm::cantFail(dist::Mesh::parse(text.str())); }

/// What a pipeline costs on some machine.
struct Machine {
  Machine(const strategies::StagePlaces &places, const char *stageMesh)
      : topology(llvm::cantFail(strategies::Topology::load("8xa100"))),
        all(meshOf("stage=" + llvm::Twine(places.devices) + "," + stageMesh), topology),
        stage(meshOf(stageMesh), topology), costs{all, stage, int64_t(1) << 40, places} {}

  strategies::Topology topology;
  strategies::CostModel all, stage;
  compiler::PipelineCosts costs;
};

/// An order that a pipeline can run in: that of its schedule, in which tasks were moved at random.
strategies::PipelineOrder changedOrder(const Trial &trial, int64_t microBatches, std::mt19937 &random) {
  const strategies::StagePlaces places = trial.places();
  const strategies::Pipeline pipeline = strategies::evenPipeline({.devices = places.devices,
                                                                  .microBatches = int(microBatches),
                                                                  .chunks = places.chunks,
                                                                  .returns = places.returns,
                                                                  .forward = 60,
                                                                  .input = 60,
                                                                  .weight = 60});
  strategies::PipelineOrder order = strategies::namedOrders(pipeline).back().order;
  for (const strategies::NamedOrder &named : strategies::namedOrders(pipeline))
    if (llvm::StringRef(trial.pipeline.schedule).starts_with(named.name))
      order = named.order;
  for (int i = 0; i < 60; ++i) {
    strategies::PipelineOrder next = order;
    auto &tasks = next[random() % next.size()];
    const size_t from = random() % tasks.size(), to = random() % tasks.size();
    const strategies::PipelineTask task = tasks[from];
    tasks.erase(tasks.begin() + int64_t(from));
    tasks.insert(tasks.begin() + int64_t(to), task);
    if (strategies::checkOrder(pipeline, next, "").empty())
      order = std::move(next);
  }
  return order;
}

/// The plans of an annotated module as a pipeline. None: it has too little to cut.
std::vector<plan::Plan> pipelined(ModuleOp module, const Trial &trial, std::mt19937 &random) {
  makeLocal(module);
  const strategies::StagePlaces places = trial.places();
  if (!trial.searched && !cutRandomly(module, places.stages(), random))
    return {};
  const Machine machine(places, trial.mesh);
  if (llvm::Error e = compiler::placeOperators(module, machine.costs)) {
    const std::string text = llvm::toString(std::move(e));
    if (text.find("too few for") != std::string::npos || text.find("too much of it waits") != std::string::npos)
      return {};
    throw std::runtime_error(text);
  }
  runPasses(module, [&](PassManager &manager) {
    manager.addPass(compiler::createCutStagesPass(
        {.stages = places.stages(), .devices = places.devices, .returns = places.returns}));
  });
  compiler::PipelineReport report;
  orThrow(compiler::orderStages(module, machine.costs, trial.pipeline, report));
  runPasses(module,
            [&](PassManager &manager) { compiler::buildOrderPipeline(manager.nest<ModuleOp>(), trial.fuse, nullptr); });
  auto plans = compiler::buildPlans(module, {.model = "network"});
  if (!plans)
    throw std::runtime_error("emit: " + llvm::toString(plans.takeError()));
  return std::move(*plans);
}

bool sameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

/// What the ranks of one place in all stages hold against what the rank of that place holds without stages.
std::string differs(const std::vector<Outcome> &whole, const std::vector<Outcome> &ranks) {
  for (size_t place = 0; place < whole.size(); ++place)
    for (const auto &[name, values] : whole[place]) {
      bool found = false;
      for (size_t rank = place; rank < ranks.size(); rank += whole.size()) {
        auto it = ranks[rank].find(name);
        if (it == ranks[rank].end())
          continue;
        found = true;
        if (it->second.size() != values.size())
          return name + " has another size";
        for (size_t i = 0; i < values.size(); ++i)
          if (!sameBits(values[i], it->second[i]))
            return "rank " + std::to_string(rank) + ", " + name + "[" + std::to_string(i) + "] is " +
                   std::to_string(it->second[i]) + ", not " + std::to_string(values[i]);
      }
      if (!found)
        return name + " is in no stage";
    }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto &[name, values] : ranks[rank])
      if (!whole[rank % whole.size()].count(name))
        return name + " is in a stage alone";
  return "";
}

/// What is wrong with the graph of this seed, or nothing.
std::string failure(unsigned seed, Tally &tally, std::string &text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
  RandomGraph graph = randomGraph(context, seed);
  if (!graph.training || !graph.hasRows) {
    ++tally.tooSmall;
    return "";
  }
  std::mt19937 random(seed);
  auto below = [&](size_t n) { return random() % n; };
  Trial trial;
  trial.devices = 2 + int(below(3));
  trial.mesh = below(2) ? "a=2" : "a=1";
  trial.fuse = below(3) != 0;
  trial.searched = below(4) == 0;
  const char *schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-h2", "auto", "interleaved:2", "interleaved:3", "zb-v"};
  const std::string schedule = schedules[below(std::size(schedules))];
  trial.pipeline = llvm::cantFail(compiler::parsePipeline("schedule=" + schedule));
  int64_t &microBatches = graph.training->accumulate;
  microBatches = 2 + int64_t(below(3));
  if (trial.pipeline.chunks > 1) {
    trial.devices = 2 + int(below(2));
    microBatches =
        trial.pipeline.returns ? 2 * trial.devices + int64_t(below(2)) : trial.devices * (1 + int64_t(below(2)));
  }
  trial.changed = below(3) == 0;
  if (trial.changed)
    trial.pipeline.order = changedOrder(trial, microBatches, random);
  text = trial.str() + ":\n" + printed(*graph.module);
  prepare(*graph.module, &*graph.training);
  annotateRandomly(*graph.module, llvm::cantFail(dist::Mesh::parse(trial.mesh)), unsigned(random()));
  text += "\nannotated:\n" + printed(*graph.module);
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(graph.module->clone());
  std::vector<plan::Plan> plans = pipelined(*module, trial, random);
  if (plans.empty()) {
    ++tally.tooSmall;
    return "";
  }
  const Feeds feeds = {.classes = graph.classes, .ids = kIds};
  const std::string wrong = differs(execute(partitioned(*graph.module, trial.fuse), feeds), execute(plans, feeds));
  ++tally.run;
  tally.searched += trial.searched;
  tally.changed += trial.changed;
  tally.onTwo += trial.mesh == std::string("a=2");
  ++tally.schedules[trial.pipeline.schedule];
  return wrong;
}

} // namespace

TEST_CASE("random graphs give in stages the bits that they give without") {
  const unsigned wanted = fromEnvironment("TESSERA_RANDOM_GRAPHS", 100);
  std::atomic<unsigned> next = fromEnvironment("TESSERA_RANDOM_SEED", 1), run = 0;
  Tally tally;
  std::map<unsigned, std::string> failures; // by seed
  std::mutex mutex;
  auto work = [&] {
    Tally mine;
    while (run < wanted) {
      const unsigned seed = next++, before = mine.run;
      std::string text, wrong;
      try {
        wrong = failure(seed, mine, text);
      } catch (const std::exception &e) {
        wrong = e.what();
      }
      run += mine.run - before;
      if (wrong.empty())
        continue;
      ++run;
      std::lock_guard lock(mutex);
      failures[seed] = wrong + (wanted == 1 ? "\n" + text : "");
    }
    std::lock_guard lock(mutex);
    tally += mine;
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorkers; ++i)
    workers.emplace_back(work);
  for (std::thread &worker : workers)
    worker.join();
  for (const auto &[seed, wrong] : failures)
    FAIL_CHECK("TESSERA_RANDOM_SEED=" << seed << ": " << wrong);
  std::string schedules;
  for (const auto &[name, count] : tally.schedules)
    schedules += ", " + name + " " + std::to_string(count);
  WARN(tally.run << " graphs (" << tally.searched << " with a searched cut, " << tally.onTwo
                 << " with two ranks in a stage, " << tally.changed << " in a changed order" << schedules << "), "
                 << tally.tooSmall << " not to be cut");
  CHECK(tally.run >= wanted);
  if (wanted < 100)
    return;
  CHECK(tally.searched > wanted / 10);
  CHECK(tally.onTwo > wanted / 4);
  CHECK(tally.changed > wanted / 10);
  CHECK(tally.schedules.size() == 8);
}

TEST_CASE("a cut that is given names a stage for every operator of the forward pass") {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
  std::mt19937 random(1);
  for (unsigned seed = 1;; ++seed) {
    RandomGraph graph = randomGraph(context, seed);
    if (!graph.training || !graph.hasRows)
      continue;
    graph.training->accumulate = 2;
    prepare(*graph.module, &*graph.training);
    annotateRandomly(*graph.module, dist::Mesh(), seed);
    makeLocal(*graph.module);
    if (!cutRandomly(*graph.module, 3, random))
      continue;
    auto placed = [&](int stages) {
      OwningOpRef<ModuleOp> copy = cast<ModuleOp>(graph.module->clone());
      return llvm::toString(compiler::placeOperators(*copy, Machine({stages}, "a=1").costs));
    };
    CHECK(placed(3) == "");
    CHECK(placed(2).find("has the stage 2 of 2") != std::string::npos);
    CHECK(placed(4) == "no operator of the forward pass has the stage 3 of 4");
    compiler::mainFunction(*graph.module).walk([&](Operation *op) {
      return op->removeAttr(dist::kStageAttr) ? WalkResult::interrupt() : WalkResult::advance();
    });
    CHECK(placed(3).find("has no stage, but other operators of the forward pass have one") != std::string::npos);
    return;
  }
}
