#include "tools/profile/Measure.h"
#include "tools/profile/ZeroedPlan.h"

#include "compiler/emit/Plans.h"
#include "compiler/partition/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "runtime/launch/Launcher.h"
#include "strategies/cost/CostModel.h"
#include "strategies/space/Enumerate.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <unistd.h>

using namespace mlir;

namespace tessera {

namespace {

using dist::Mesh;
using dist::Sharding;
using dist::ShardingRule;
using dist::Strategy;
using strategies::OperatorClass;
using strategies::ProfileTable;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A program "infer" of one operator on arguments of its own, with its strategy and shardings.
OwningOpRef<ModuleOp> programOf(Operation *original, const Mesh &mesh, const Strategy &strategy) {
  MLIRContext *context = original->getContext();
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  dist::setMesh(*module, mesh);
  builder.setInsertionPointToEnd(module->getBody());
  auto func = func::FuncOp::create(builder, builder.getUnknownLoc(), "infer",
                                   builder.getFunctionType(original->getOperandTypes(), original->getResultTypes()));
  Block *block = func.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  Operation *op = builder.clone(*original);
  op->setOperands(block->getArguments());
  func::ReturnOp::create(builder, builder.getUnknownLoc(), op->getResults());
  ShardingRule rule = llvm::cantFail(cast<dist::ShardingRuleOpInterface>(op).getShardingRule());
  dist::setStrategy(op, rule, mesh, strategy);
  auto text = [&](const Twine &t) { return builder.getStringAttr(t); };
  auto attr = [&](const Sharding &s) { return dist::ShardingAttr::get(context, mesh, s); };
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    func.setArgAttr(i, graph::kRoleAttr, text(graph::kInput));
    func.setArgAttr(i, graph::kNameAttr, text("in" + Twine(i)));
    func.setArgAttr(i, dist::kShardingAttr, attr(dist::operandSharding(mesh, rule, strategy, int(i))));
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    func.setResultAttr(i, graph::kRoleAttr, text(graph::kOutput));
    func.setResultAttr(i, graph::kNameAttr, text("out" + Twine(i)));
    func.setResultAttr(i, dist::kShardingAttr,
                       attr(dist::naturalResult(mesh, rule, strategy, int(i)).withoutPartial()));
  }
  return module;
}

/// The operator as a program for one rank.
OwningOpRef<ModuleOp> wholeProgram(Operation *op) {
  Strategy whole;
  whole.factors.resize(llvm::cantFail(cast<dist::ShardingRuleOpInterface>(op).getShardingRule()).factors.size());
  return programOf(op, Mesh(), whole);
}

/// The operator on one rank's local shapes, as a program for one rank. Null if it is not a single operator there.
OwningOpRef<ModuleOp> localProgram(Operation *original, const Mesh &mesh, const Strategy &strategy) {
  OwningOpRef<ModuleOp> sharded = programOf(original, mesh, strategy);
  PassManager passes(original->getContext());
  passes.addPass(compiler::createInsertReshardsPass());
  passes.addPass(compiler::createLocalizePass());
  if (failed(passes.run(*sharded)))
    return {};
  Operation *local = nullptr;
  sharded->walk([&](Operation *op) {
    if (op->getName() == original->getName())
      local = op;
  });
  if (!local)
    return {};
  return wholeProgram(local);
}

llvm::Error asError(const rt::Status &status) { return llvm::createStringError("%s", status.message().c_str()); }

/// Measures the seconds of one run, the copies in turn. Launches are enqueued several at a time, which keeps a device
/// busy. What disturbs the machine for a moment must not count, so it is the median of several slices of the time.
rt::Status timeSteps(std::vector<ZeroedPlan> &copies, int steps, double seconds, double &result) {
  constexpr int kSlices = 9;
  const int row = copies.front()->capabilities().onHost ? 1 : 16;
  size_t next = 0;
  auto run = [&](int times) -> rt::Status {
    for (int i = 0; i < times; ++i, next = (next + 1) % copies.size())
      for (int s = 0; s < steps; ++s)
        TESSERA_RETURN_IF_ERROR(copies[next]->launch(0, uint32_t(s)));
    return copies.front()->synchronize();
  };
  TESSERA_RETURN_IF_ERROR(run(int(copies.size())));
  std::vector<double> slices;
  double spent = 0;
  do {
    int64_t runs = 0;
    const Clock::time_point start = Clock::now();
    do {
      TESSERA_RETURN_IF_ERROR(run(row));
      runs += row;
    } while (since(start) < seconds / kSlices);
    spent += since(start);
    slices.push_back(since(start) / double(runs));
  } while (spent < seconds);
  std::sort(slices.begin(), slices.end());
  result = slices[slices.size() / 2];
  return rt::Status();
}

/// Measures the seconds of one run. On the host all ranks run at once and the mean counts; a device runs alone.
llvm::Expected<double> timeProgram(ModuleOp module, const MeasureOptions &options) {
  PassManager passes(module.getContext());
  compiler::buildPartitionPipeline(passes);
  if (failed(passes.run(module)))
    return llvm::createStringError("an operator cannot be partitioned alone");
  auto plans = compiler::buildPlans(module, compiler::EmitOptions());
  if (!plans)
    return plans.takeError();
  const plan::Plan &plan = (*plans)[0];
  double sum = 0;
  std::mutex mutex;
  const int ranks = rt::runsOnDevice(options.backend) ? 1 : int(options.mesh.numRanks());
  rt::Status status = rt::runRanks(ranks, [&](rt::World &) -> rt::Status {
    const bool onHost = !rt::runsOnDevice(options.backend);
    std::vector<ZeroedPlan> copies(size_t(onHost ? copiesPastCaches(int64_t(plan.arena_bytes()), ranks) : 1));
    for (ZeroedPlan &copy : copies)
      TESSERA_RETURN_IF_ERROR(copy.load(plan, options.backend, ranks));
    double mine = 0;
    TESSERA_RETURN_IF_ERROR(timeSteps(copies, plan.programs(0).steps_size(), options.seconds, mine));
    std::lock_guard<std::mutex> lock(mutex);
    sum += mine;
    return rt::Status();
  });
  if (!status.ok())
    return asError(status);
  return sum / ranks;
}

} // namespace

int64_t copiesPastCaches(int64_t bytes, int ranks) {
  constexpr int64_t kUnknownCache = int64_t(32) << 20, kMostHeld = int64_t(256) << 20;
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const int64_t held = std::min(2 * (cache > 0 ? cache : kUnknownCache), kMostHeld) / ranks,
                one = std::max<int64_t>(1, bytes);
  return std::min((held + one - 1) / one, kMostCopies);
}

DialectRegistry measuredDialects() {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
  return registry;
}

llvm::Expected<double> timeOperator(Operation *op, const MeasureOptions &options) {
  return timeProgram(*wholeProgram(op), options);
}

llvm::Error measureKernels(ModuleOp module, const MeasureOptions &options, ProfileTable &table,
                           const Progress &progress) {
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    llvm::Expected<strategies::Program> program = strategies::Program::analyse(func);
    if (!program)
      return program.takeError();
    for (const auto &cls : program->classes) {
      // What takes rows of a micro-batch or adds up over all of them is no program of its own.
      if (cls->part != graph::LoopPart::None || strategies::isNoKernel(*cls) || graph::microBatches(cls->sample))
        continue;
      for (Strategy strategy : strategies::enumerateStrategies(*cls, options.mesh)) {
        strategy.results.clear(); // a kernel does not depend on the sharding of its results afterwards
        if (!dist::statisticsAxes(cls->rule, strategy, options.mesh).empty() || !strategy.partial.empty())
          continue;
        std::string key = ProfileTable::kernelKey(
            cls->sample->getName().getStringRef(), strategies::localOperands(*cls, options.mesh, strategy),
            strategies::localResults(*cls, options.mesh, strategy), cls->elementBits);
        if (table.seconds(key))
          continue;
        OwningOpRef<ModuleOp> local = localProgram(cls->sample, options.mesh, strategy);
        if (!local)
          return llvm::createStringError("operator '%s' cannot be localised", graph::nameOf(cls->sample).c_str());
        llvm::Expected<double> seconds = timeProgram(*local, options);
        if (!seconds)
          return llvm::createStringError("operator '%s': %s", graph::nameOf(cls->sample).c_str(),
                                         llvm::toString(seconds.takeError()).c_str());
        table.addKernel(key, *seconds);
        char text[40];
        std::snprintf(text, sizeof text, "%12.2f us  ", *seconds * 1e6);
        progress(text + key);
      }
    }
  }
  return llvm::Error::success();
}

} // namespace tessera
