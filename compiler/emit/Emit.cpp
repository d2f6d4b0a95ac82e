#include "compiler/emit/Emit.h"

#include "compiler/emit/PlanWriter.h"

#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"

#include "llvm/ADT/STLFunctionalExtras.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

int64_t maxRanks() { return rt::kMaxRanks; }

/// The memory of the stage that needs most.
static MemoryReport largestOf(ArrayRef<PlanLayout> layouts) {
  return llvm::max_element(layouts,
                           [](const PlanLayout &a, const PlanLayout &b) { return a.arenaBytes < b.arenaBytes; })
      ->report;
}

/// Makes and checks the plans of all ranks, one after the other.
static Error forEachPlan(ModuleOp local, const EmitOptions &options, MemoryReport *report,
                         llvm::function_ref<void(const plan::Plan &, rt::PlanContents)> use) {
  Expected<std::vector<PlanLayout>> layouts = buildPlanLayouts(local);
  if (!layouts)
    return layouts.takeError();
  if (report)
    *report = largestOf(*layouts);
  // The runtime's checker runs here as well, so that an error of the compiler shows when it compiles.
  auto valid = [](const rt::Status &status) {
    return status.ok() ? Error::success() : createStringError("internal error: invalid plan: " + status.message());
  };
  rt::PlansChecker checker;
  for (const PlanLayout &layout : *layouts) {
    PlanWriter writer(layout, options);
    for (int64_t rank = 0; rank < layout.mesh.numRanks(); ++rank) {
      Expected<const plan::Plan *> plan = writer.write(rank);
      if (!plan)
        return plan.takeError();
      rt::PlanContents contents(**plan);
      if (Error e = valid(checker.add(**plan, contents.bytes)))
        return e;
      use(**plan, std::move(contents));
    }
  }
  return valid(checker.finish());
}

Expected<std::vector<plan::Plan>> buildPlans(ModuleOp local, const EmitOptions &options, MemoryReport *report) {
  std::vector<plan::Plan> plans;
  if (Error e =
          forEachPlan(local, options, report, [&](const plan::Plan &plan, rt::PlanContents) { plans.push_back(plan); }))
    return e;
  return plans;
}

Expected<MemoryReport> planMemory(ModuleOp local, const EmitOptions &options, std::vector<ProgramTimes> *times) {
  Expected<std::vector<PlanLayout>> layouts = buildPlanLayouts(local);
  if (!layouts)
    return layouts.takeError();
  MemoryReport report = largestOf(*layouts);
  for (const PlanLayout &layout : *layouts)
    report.stageBytes.push_back(layout.arenaBytes);
  if (!times)
    return report;
  times->clear();
  for (auto [place, layout] : llvm::enumerate(*layouts))
    for (const LayoutProgram &program : layout.programs) {
      ProgramTimes &known = times->emplace_back(ProgramTimes{program.name, place, {}, program.callTimes});
      for (const LayoutStep &step : program.steps)
        known.steps.push_back(step.predicted);
    }
  return report;
}

Error emitPlan(ModuleOp local, ModuleOp sequential, const EmitOptions &options, const std::string &directory,
               MemoryReport *report) {
  std::vector<rt::PlanContents> ranks, whole;
  auto into = [](std::vector<rt::PlanContents> &list) {
    return [&](const plan::Plan &, rt::PlanContents plan) { list.push_back(std::move(plan)); };
  };
  if (Error e = forEachPlan(local, options, report, into(ranks)))
    return e;
  if (sequential)
    if (Error e = forEachPlan(sequential, options, nullptr, into(whole)))
      return e;
  if (whole.size() > 1)
    return createStringError("the sequential program is not for one rank");
  std::optional<rt::PlanContents> alone;
  if (!whole.empty())
    alone = std::move(whole.front());
  if (rt::Status status = rt::writePlanDirectory(directory, ranks, alone); !status.ok())
    return createStringError(status.message());
  return Error::success();
}

} // namespace tessera::compiler
