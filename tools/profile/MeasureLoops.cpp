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
/// Memory and launch take at least this part of the loops of one size, whatever arithmetic seems to take.
constexpr double kLeastMemory = 0.1;

/// Bytes, operations, and the median time of the rounds.
struct Loop {
  double bytes = 0, operations = 0, seconds = 0;
};

/// Loops of about one size, and sums over them: of bytes and operations by seconds, and of their products.
struct SizeClass {
  double count = 0, bytes = 0, operations = 0, seconds = 0;
  double u = 0, v = 0, uu = 0, uv = 0, vv = 0;

  void add(const Loop &loop) {
    count += 1;
    bytes += loop.bytes;
    operations += loop.operations;
    seconds += loop.seconds;
    const double byBytes = loop.bytes / loop.seconds, byOperations = loop.operations / loop.seconds;
    u += byBytes;
    v += byOperations;
    uu += byBytes * byBytes;
    uv += byBytes * byOperations;
    vv += byOperations * byOperations;
  }
};

/// The seconds of an operation: the k of the least squares of (a bytes + k operations) / seconds - 1 over all loops,
/// where every size has an a of its own.
double secondsOfOperation(const std::map<int, SizeClass> &sizes) {
  double above = 0, below = 0;
  for (const auto &[size, c] : sizes)
    if (c.uu > 0) {
      above += c.v - c.u * c.uv / c.uu;
      below += c.vv - c.uv * c.uv / c.uu;
    }
  return below > 0 ? std::max(0.0, above / below) : 0;
}

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
      const rt::KernelWork work = rt::workOf(call);
      loops.push_back({double(std::max<uint64_t>(1, work.bytes)), work.flops.value_or(0), mine[kRounds / 2]});
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
  std::map<int, SizeClass> sizes; // by the power of kSizes
  rt::Status status = rt::runRanks(int(plans->size()), [&](rt::World &world) -> rt::Status {
    std::vector<Loop> mine;
    TESSERA_RETURN_IF_ERROR(
        timeLoops((*plans)[size_t(world.rank())], options.backend, int(plans->size()), names, mine));
    std::lock_guard<std::mutex> lock(mutex);
    for (const Loop &loop : mine)
      if (loop.seconds > 0)
        sizes[int(std::log(loop.bytes) / std::log(kSizes))].add(loop);
    return rt::Status();
  });
  if (!status)
    return llvm::createStringError(status.message());
  const double operation = secondsOfOperation(sizes);
  table.setLoopOperation(operation);
  for (const auto &[size, sum] : sizes) {
    const double bytes = sum.bytes / sum.count;
    const double seconds = std::max(kLeastMemory * sum.seconds, sum.seconds - operation * sum.operations) / sum.count;
    table.addLoop(bytes, seconds);
    char text[112];
    std::snprintf(text, sizeof text, "%12.2f us  loops of %.3g bytes (mean of %.0f, without %.3g us of arithmetic)",
                  seconds * 1e6, bytes, sum.count, (sum.seconds / sum.count - seconds) * 1e6);
    progress(text);
  }
  return llvm::Error::success();
}

} // namespace tessera
