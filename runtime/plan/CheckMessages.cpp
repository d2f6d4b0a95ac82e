// checkMessages: collectives that are sent as one message.
//
// Each of them is a good collective by itself (checkStep), and checkDefinedness has them run one after the other. What
// remains is that running them at once, at the first one's turn, does the same: nothing stands between them, no result
// lies where another one's operand is, and operands and results are each one range of bytes.
#include "runtime/plan/Alignment.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"

namespace tessera::rt {
namespace {

/// `step` is the one that follows the member `before` of the message that `first` begins, which runs on `resource`.
Status checkMember(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Collective &first,
                   const plan::Collective &before, plan::Resource resource, const plan::Step &step) {
  if (!step.has_collective())
    return Status::error("no collective, but sent with others");
  const plan::Collective &c = step.collective();
  if (c.joined() != 0)
    return Status::error("joins others, but is itself sent with an earlier one");
  if (step.resource() != resource || step.waits_size() > 0)
    return Status::error("runs on another resource or waits for steps, but is sent with an earlier one");
  if (c.kind() != first.kind() || c.group() != first.group() || c.reduction() != first.reduction() ||
      c.tree() != first.tree() || plan.buffers(int(c.input())).dtype() != plan.buffers(int(first.input())).dtype())
    return Status::error("of another kind, group, reduction, order or type than what it is sent with");
  const BufferRange &in = ranges[c.input()], &last = ranges[before.input()];
  if (in.begin != aligned(last.end))
    return Status::error("reads " + bufferText(plan, c.input()) + ", which does not lie behind " +
                         bufferText(plan, before.input()) + ", although they are sent together");
  const Frames frames(plan);
  for (auto [mine, others] : {std::pair(c.input(), first.input()), std::pair(c.output(), first.output())})
    if (frames.frameOf(ranges[mine].begin) != frames.frameOf(ranges[others].begin))
      return Status::error("uses " + bufferText(plan, mine) + ", which is in another frame than " +
                           bufferText(plan, others) + ", although they are sent together");
  if (ranges[c.output()].begin - ranges[first.output()].begin != in.begin - ranges[first.input()].begin)
    return Status::error("writes " + bufferText(plan, c.output()) + ", which is not as far behind " +
                         bufferText(plan, first.output()) + " as their inputs are apart");
  return Status();
}

} // namespace

Status checkMessages(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program) {
  const TimeOrder order(program);
  for (int s = 0; s < program.steps_size(); ++s) {
    const plan::Collective &first = program.steps(s).collective();
    if (!program.steps(s).has_collective() || first.joined() == 0)
      continue;
    auto where = [&](int step) {
      return "step " + std::to_string(step) + " " + quoted(program.steps(step).name()) + " of program " +
             quoted(program.name());
    };
    if (first.kind() != plan::ALL_REDUCE)
      return Status::error("only all-reduces are sent together").context(where(s));
    if (first.joined() >= order.sectionOf(uint32_t(s)).end - uint32_t(s))
      return Status::error("joins " + std::to_string(first.joined()) +
                           " steps, more than there are behind it in its section")
          .context(where(s));
    const int end = s + int(first.joined());
    for (int member = s + 1; member <= end; ++member)
      TESSERA_RETURN_IF_ERROR(checkMember(plan, ranges, first, program.steps(member - 1).collective(),
                                          program.steps(s).resource(), program.steps(member))
                                  .context(where(member)));
    const plan::Collective &last = program.steps(end).collective();
    const uint64_t in = ranges[first.input()].begin, out = ranges[first.output()].begin;
    if (in != out && in < ranges[last.output()].end && out < ranges[last.input()].end)
      return Status::error("writes results over operands of the same message").context(where(s));
    s = end;
  }
  return Status();
}

} // namespace tessera::rt
