#include "runtime/plan/lanes/RunBeside.h"

#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/lanes/LaneOrder.h"

namespace tessera::rt {
namespace {

/// The steps [first, last] that run at once: a message, or one step.
struct Unit {
  int first = 0, last = 0;
};

LaneBytes bytesAt(const plan::Plan &plan, uint32_t buffer) {
  const plan::Buffer &b = plan.buffers(int(buffer));
  return {b.offset(), b.offset() + bytesOf(toVector(b.shape()), b.dtype()).value_or(0)};
}

/// Adds a step's operands.
void addStep(const plan::Plan &plan, const plan::Step &step, LaneStep &to) {
  if (step.has_collective())
    to.group = step.collective().group();
  std::array<uint32_t, 2> own;
  const Operands operands = operandsOf(step, own);
  for (uint32_t in : operands.read)
    to.reads.push_back(bytesAt(plan, in));
  for (uint32_t out : operands.written)
    to.writes.push_back(bytesAt(plan, out));
}

} // namespace

void runBeside(plan::Plan &plan, const std::function<bool(const plan::Program &program, int step)> &beside) {
  for (plan::Program &program : *plan.mutable_programs()) {
    const TimeOrder order(program);
    for (const Section &section : order.sections()) {
      std::vector<Unit> units;
      std::vector<LaneStep> steps;
      for (int s = int(section.begin); s < int(section.end);) {
        const Unit unit = {s, s + int(followers(program.steps(s).collective()))};
        LaneStep &step = steps.emplace_back();
        step.lane = program.steps(s).has_collective() && beside(program, s) ? plan::COMMUNICATION : plan::COMPUTE;
        for (; s <= unit.last; ++s)
          addStep(plan, program.steps(s), step);
        units.push_back(unit);
      }
      addWaits(steps);
      for (size_t u = 0; u < units.size(); ++u) {
        for (int s = units[u].first; s <= units[u].last; ++s) {
          program.mutable_steps(s)->set_resource(plan::Resource(steps[u].lane));
          program.mutable_steps(s)->clear_waits();
        }
        for (const uint32_t other : steps[u].waits) // the last one's end is the message's
          program.mutable_steps(units[u].first)->add_waits(uint32_t(units[other].last));
      }
    }
  }
}

} // namespace tessera::rt
