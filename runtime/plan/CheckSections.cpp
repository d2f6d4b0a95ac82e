// checkSections: sections are parts of the steps in order, and calls name them. After this a TimeOrder is safe.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// More steps than a machine runs in an hour; less than what makes whoever walks them all slow.
constexpr uint64_t kMaxStepsInTime = uint64_t(1) << 24;

Status checkEnds(const plan::Program &program) {
  const auto &ends = program.section_ends();
  for (int s = 1; s < ends.size(); ++s)
    if (ends[s] < ends[s - 1])
      return Status::error("section " + std::to_string(s) + " ends before step " + std::to_string(ends[s]) +
                           ", the one before it only before step " + std::to_string(ends[s - 1]));
  if (!ends.empty() && ends[ends.size() - 1] != uint32_t(program.steps_size()))
    return Status::error("the last section ends before step " + std::to_string(ends[ends.size() - 1]) + " of " +
                         std::to_string(program.steps_size()));
  return Status();
}

/// The attribute `parts` of a kernel "micro_rows"; 0 if it has no such number.
int64_t partsOf(const plan::Kernel &kernel) {
  for (const plan::Attribute &attribute : kernel.attributes())
    if (attribute.name() == kParts)
      return attribute.i();
  return 0;
}

/// A section's step "micro_rows" of fewest parts.
struct Bound {
  int step = -1;
  int64_t parts = INT64_MAX;
};

} // namespace

Status checkSections(const plan::Program &program) {
  auto check = [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(checkEnds(program));
    const int sections = std::max(1, program.section_ends_size());
    for (const plan::Call &call : program.calls())
      if (call.section() >= uint32_t(sections))
        return Status::error("section " + std::to_string(call.section()) + " is called, but there are " +
                             std::to_string(sections));
    const TimeOrder order(program);
    if (order.size() > kMaxStepsInTime)
      return Status::error("its calls make " + std::to_string(order.size()) + " steps, more than " +
                           std::to_string(kMaxStepsInTime));
    std::vector<Bound> bounds(order.sections().size());
    for (size_t s = 0; s < bounds.size(); ++s)
      for (uint32_t step = order.sections()[s].begin; step < order.sections()[s].end; ++step)
        if (const plan::Kernel &kernel = program.steps(int(step)).kernel(); kernel.name() == kMicroRows)
          if (const int64_t parts = partsOf(kernel); parts < bounds[s].parts)
            bounds[s] = {int(step), parts};
    for (const SectionCall &call : order.calls())
      if (const Bound &bound = bounds[call.section]; int64_t(call.index) >= bound.parts)
        return Status::error("section " + std::to_string(call.section) + " is called with index " +
                             std::to_string(call.index) + ", but its step " + std::to_string(bound.step) + " " +
                             quoted(program.steps(bound.step).name()) + " knows " + std::to_string(bound.parts) +
                             " parts");
    return Status();
  };
  return check().context("program " + quoted(program.name()));
}

} // namespace tessera::rt
