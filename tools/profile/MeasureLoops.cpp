#include "tools/profile/Measure.h"
#include "tools/profile/ZeroedPlan.h"

#include "compiler/emit/Plans.h"
#include "compiler/partition/Passes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Fusion.h"
#include "runtime/backend/KernelWork.h"
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/launch/Launcher.h"
#include "strategies/modes/Assign.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

using namespace mlir;

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// Rounds through the program, after one to warm up.
constexpr int kRounds = 3;
/// Loops of sizes within this factor are one point of the table.
constexpr double kSizes = 4;

/// Bytes, and the median time of the rounds.
struct Loop {
  double bytes = 0, seconds = 0;
};

/// The kernels of operators that fusion can put into loops.
std::set<std::string> loopKernels(ModuleOp local) {
  std::set<std::string> names;
  local->walk([&](Operation *op) {
    if (graph::isLoop(op) || graph::loopPart(op) == graph::LoopPart::Points ||
        graph::loopPart(op) == graph::LoopPart::Reduction)
      names.insert(graph::kernelOf(op).str());
  });
  return names;
}

/// All kernels of the first program run in order, so that a loop finds in the caches what it would find in a step.
/// Collectives are left out: what they would have written are other numbers, and take loops as long.
rt::Status timeLoops(const plan::Plan &plan, const std::string &backend, int ranks, const std::set<std::string> &names,
                     std::vector<Loop> &loops) {
  ZeroedPlan loaded;
  TESSERA_RETURN_IF_ERROR(loaded.load(plan, backend, ranks));
  auto calls = rt::resolveCalls(plan, loaded.options());
  if (!calls)
    return calls.status();
  const plan::Program &program = plan.programs(0);
  std::vector<std::vector<double>> times(static_cast<size_t>(program.steps_size()));
  for (int round = 0; round <= kRounds; ++round)
    for (int s = 0; s < program.steps_size(); ++s) {
      if (!program.steps(s).has_kernel())
        continue;
      const Clock::time_point start = Clock::now();
      TESSERA_RETURN_IF_ERROR(loaded->launch(0, uint32_t(s)));
      if (round > 0)
        times[size_t(s)].push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  for (int s = 0; s < program.steps_size(); ++s)
    if (const rt::KernelCall &call = (*calls)[0][size_t(s)]; call.kernel && names.count(call.name())) {
      std::vector<double> &mine = times[size_t(s)];
      std::sort(mine.begin(), mine.end());
      loops.push_back({double(rt::workOf(call).bytes), mine[kRounds / 2]});
    }
  return rt::Status();
}

} // namespace

llvm::Error measureLoops(ModuleOp original, const MeasureOptions &options, strategies::ProfileTable &table,
                         const Progress &progress) {
  if (rt::runsOnDevice(options.backend) || table.hasLoops())
    return llvm::Error::success();
  OwningOpRef<ModuleOp> module = original.clone();
  strategies::AssignOptions assign;
  assign.mesh = options.mesh;
  auto topology = strategies::Topology::load("cpu");
  if (!topology)
    return topology.takeError();
  assign.topology = *topology;
  strategies::AssignReport report;
  if (llvm::Error e = strategies::assignStrategies(*module, assign, report))
    return e;
  PassManager passes(module->getContext());
  compiler::buildPartitionPipeline(passes);
  if (failed(passes.run(*module)))
    return llvm::createStringError("the program cannot be partitioned over '%s'", options.mesh.str().c_str());
  const std::set<std::string> names = loopKernels(*module);
  auto plans = compiler::buildPlans(*module, compiler::EmitOptions());
  if (!plans)
    return plans.takeError();
  std::mutex mutex;
  std::map<int, std::pair<double, double>> sums; // by the power of kSizes: bytes, seconds
  std::map<int, int> counts;
  rt::Status status = rt::runRanks(int(plans->size()), [&](rt::World &world) -> rt::Status {
    std::vector<Loop> mine;
    TESSERA_RETURN_IF_ERROR(
        timeLoops((*plans)[size_t(world.rank())], options.backend, int(plans->size()), names, mine));
    std::lock_guard<std::mutex> lock(mutex);
    for (const Loop &loop : mine) {
      const int size = int(std::log(std::max(1.0, loop.bytes)) / std::log(kSizes));
      sums[size].first += loop.bytes;
      sums[size].second += loop.seconds;
      ++counts[size];
    }
    return rt::Status();
  });
  if (!status)
    return llvm::createStringError(status.message());
  for (const auto &[size, sum] : sums) {
    const double bytes = sum.first / counts[size], seconds = sum.second / counts[size];
    table.addLoop(std::max(1.0, bytes), seconds);
    char text[112];
    std::snprintf(text, sizeof text, "%12.2f us  loops of %.3g bytes (mean of %d)", seconds * 1e6, bytes, counts[size]);
    progress(text);
  }
  return llvm::Error::success();
}

} // namespace tessera
