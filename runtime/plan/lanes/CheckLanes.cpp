// checkLanes: collectives that run beside kernels.
//
// A program whose steps all run on one resource has nothing to prove. Otherwise every section is proved by itself, as a
// call begins when the one before it has ended. Frames move all operands of a call that lie in one of them by the same
// distance, and others not at all. So what overlaps in one call overlaps in all.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/lanes/LaneOrder.h"

#include <algorithm>

namespace tessera::rt {
namespace {

std::string numberText(uint32_t step) { return "step " + std::to_string(step); }

Status checkWaits(const plan::Program &program, const Section &section, uint32_t s) {
  const plan::Step &step = program.steps(int(s));
  if (step.resource() != plan::COMPUTE && (step.resource() != plan::COMMUNICATION || !step.has_collective()))
    return Status::error(step.resource() == plan::COMMUNICATION
                             ? "runs on the communication resource, but is no collective"
                             : "runs on a resource that ranks do not have");
  for (int w = 0; w < step.waits_size(); ++w) {
    const uint32_t other = step.waits(w);
    if (other < section.begin || other >= s)
      return Status::error("waits for " + numberText(other) + ", which is not before it in its section");
    if (w > 0 && step.waits(w - 1) >= other)
      return Status::error("waits for " + numberText(other) + " out of order or twice");
    if (program.steps(int(other)).resource() == step.resource())
      return Status::error("waits for " + numberText(other) + ", which runs on the same resource");
  }
  return Status();
}

std::string reasonText(const plan::Program &program, const Unordered &found, uint32_t begin) {
  const uint32_t other = begin + found.first;
  const std::string what = numberText(other) + " " + quoted(program.steps(int(other)).name());
  switch (found.why) {
  case Unordered::Read:
    return "reads what " + what + " writes, but may begin before that has ended; let it wait for it";
  case Unordered::Overwritten:
    return "writes over what " + what + " uses, but may begin before that has ended; let it wait for it";
  default:
    return "is a collective of the same group as " + what + ", and the two have no order; let it wait for it";
  }
}

} // namespace

Status checkLanes(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program) {
  if (std::ranges::none_of(program.steps(), [](const plan::Step &step) {
        return step.resource() != plan::COMPUTE || step.waits_size() > 0;
      }))
    return Status();
  auto where = [&](uint32_t s) {
    return numberText(s) + " " + quoted(program.steps(int(s)).name()) + " of program " + quoted(program.name());
  };
  const TimeOrder order(program);
  for (const Section &section : order.sections()) {
    std::vector<LaneStep> steps(section.end - section.begin);
    for (uint32_t s = section.begin; s < section.end; ++s) {
      TESSERA_RETURN_IF_ERROR(checkWaits(program, section, s).context(where(s)));
      const plan::Step &step = program.steps(int(s));
      LaneStep &lane = steps[s - section.begin];
      lane.lane = step.resource();
      if (step.has_collective())
        lane.group = step.collective().group();
      for (uint32_t other : step.waits())
        lane.waits.push_back(other - section.begin);
      std::array<uint32_t, 2> own;
      const Operands operands = operandsOf(step, own);
      for (uint32_t in : operands.read)
        lane.reads.push_back({ranges[in].begin, ranges[in].end});
      for (uint32_t out : operands.written)
        lane.writes.push_back({ranges[out].begin, ranges[out].end});
    }
    if (const std::optional<Unordered> found = firstUnordered(steps))
      return Status::error(reasonText(program, *found, section.begin)).context(where(section.begin + found->second));
  }
  return Status();
}

} // namespace tessera::rt
