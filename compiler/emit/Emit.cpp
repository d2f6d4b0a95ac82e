#include "compiler/emit/Emit.h"

#include "compiler/emit/PlanWriter.h"

#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

Expected<std::vector<plan::Plan>> buildPlans(ModuleOp local, const EmitOptions &options,
                                             MemoryReport *report) {
  Expected<Skeleton> skeleton = buildSkeleton(local);
  if (!skeleton)
    return skeleton.takeError();
  if (report)
    *report = skeleton->report;
  std::vector<plan::Plan> plans;
  for (int64_t rank = 0; rank < skeleton->mesh.numRanks(); ++rank) {
    Expected<plan::Plan> plan = writePlan(*skeleton, options, rank);
    if (!plan)
      return plan.takeError();
    // What the runtime would refuse is a fault of ours, and is found here.
    if (rt::Status status = rt::checkPlan(*plan); !status.ok())
      return createStringError("the plan made is not valid: " + status.message());
    plans.push_back(std::move(*plan));
  }
  if (rt::Status status = rt::checkPlans(plans); !status.ok())
    return createStringError("the plans made do not fit together: " + status.message());
  return plans;
}

Expected<MemoryReport> planMemory(ModuleOp local, const EmitOptions &options) {
  Expected<Skeleton> skeleton = buildSkeleton(local);
  if (!skeleton)
    return skeleton.takeError();
  return skeleton->report;
}

Error emitPlan(ModuleOp local, ModuleOp sequential, const EmitOptions &options,
               const std::string &directory, MemoryReport *report) {
  Expected<std::vector<plan::Plan>> ranks = buildPlans(local, options, report);
  if (!ranks)
    return ranks.takeError();
  std::optional<plan::Plan> whole;
  if (sequential) {
    Expected<std::vector<plan::Plan>> plans = buildPlans(sequential, options);
    if (!plans)
      return plans.takeError();
    if (plans->size() != 1)
      return createStringError("the sequential program is not for one rank");
    whole = std::move(plans->front());
  }
  if (rt::Status status = rt::writePlanDirectory(directory, std::move(*ranks), std::move(whole));
      !status.ok())
    return createStringError(status.message());
  return Error::success();
}

} // namespace tessera::compiler
