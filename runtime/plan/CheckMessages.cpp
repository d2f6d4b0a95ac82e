// checkMessages: collectives that are sent as one message.
//
// Each of them is a good collective by itself (checkStep), and checkDefinedness has them run one after the other. What
// remains is that running them at once, at the first one's turn, does the same: nothing stands between them, no result
// lies where another one's operand or result is, and operands and results of all-reduces are each one range of bytes.
#include "runtime/plan/Alignment.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <array>
#include <functional>

namespace tessera::rt {
namespace {

std::string placeText(const plan::Program &program, int step) {
  return "step " + std::to_string(step) + " " + quoted(program.steps(step).name()) + " of program " +
         quoted(program.name());
}

/// `step` follows others in the message that `first` begins, which runs on `resource`.
Status checkAlike(const plan::Plan &plan, const plan::Collective &first, plan::Resource resource,
                  const plan::Step &step) {
  if (!step.has_collective())
    return Status::error("no collective, but sent with others");
  const plan::Collective &c = step.collective();
  if (followers(c) != 0)
    return Status::error("joins others, but is itself sent with an earlier one");
  if (step.resource() != resource || step.waits_size() > 0)
    return Status::error("runs on another resource or waits for steps, but is sent with an earlier one");
  if (c.kind() != first.kind() || c.group() != first.group() || c.reduction() != first.reduction() ||
      c.tree() != first.tree() || plan.buffers(int(c.input())).dtype() != plan.buffers(int(first.input())).dtype())
    return Status::error("of another kind, group, reduction, order or type than what it is sent with");
  return Status();
}

/// `c` follows the member `before` of the message of all-reduces that `first` begins.
Status checkBehind(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Collective &first,
                   const plan::Collective &before, const plan::Collective &c) {
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

/// The steps [s, end] are all-reduces that are sent as one.
Status checkSideBySide(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program,
                       int s, int end) {
  const plan::Collective &first = program.steps(s).collective(), &last = program.steps(end).collective();
  for (int member = s + 1; member <= end; ++member)
    TESSERA_RETURN_IF_ERROR(
        checkBehind(plan, ranges, first, program.steps(member - 1).collective(), program.steps(member).collective())
            .context(placeText(program, member)));
  const uint64_t in = ranges[first.input()].begin, out = ranges[first.output()].begin;
  if (in != out && in < ranges[last.output()].end && out < ranges[last.input()].end)
    return Status::error("writes results over operands of the same message").context(placeText(program, s));
  return Status();
}

/// The steps [s, end] are a list of gathers or scatters: what one writes, no other one uses. Their ranges are sorted,
/// so that it takes n log n time.
Status checkList(const std::vector<BufferRange> &ranges, const plan::Program &program, int s, int end) {
  struct Use {
    BufferRange bytes;
    int step;
    bool writes;
  };
  std::vector<Use> uses;
  for (int member = s; member <= end; ++member) {
    const plan::Collective &c = program.steps(member).collective();
    for (auto [buffer, writes] : {std::pair(c.input(), false), std::pair(c.output(), true)})
      if (ranges[buffer].begin < ranges[buffer].end)
        uses.push_back({ranges[buffer], member, writes});
  }
  std::ranges::sort(uses, {}, [](const Use &use) { return std::pair(use.bytes.begin, use.step); });
  // Of the uses before, those that reach furthest: of each sort two of different steps, since a step may overlap itself.
  std::array<std::vector<const Use *>, 2> furthest; // by whether they write
  for (const Use &use : uses) {
    for (bool writes : {false, true})
      for (const Use *other : furthest[writes])
        if ((use.writes || writes) && other->step != use.step && other->bytes.end > use.bytes.begin)
          return Status::error("uses bytes that " + placeText(program, other->step) +
                               " uses, and one of them writes them, although they are sent together")
              .context(placeText(program, use.step));
    std::vector<const Use *> &mine = furthest[use.writes];
    const auto same = std::ranges::find(mine, use.step, &Use::step);
    if (same == mine.end())
      mine.push_back(&use);
    else if ((*same)->bytes.end < use.bytes.end)
      *same = &use;
    std::ranges::sort(mine, std::greater<>(), [](const Use *one) { return one->bytes.end; });
    if (mine.size() > 2)
      mine.pop_back();
  }
  return Status();
}

} // namespace

Status checkMessages(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program) {
  const TimeOrder order(program);
  for (int s = 0; s < program.steps_size(); ++s) {
    const plan::Collective &first = program.steps(s).collective();
    const bool list = first.along() > 0;
    if (!program.steps(s).has_collective() || (first.joined() == 0 && !list))
      continue;
    if (first.joined() > 0 && first.kind() != plan::ALL_REDUCE)
      return Status::error("only all-reduces are sent together as one tensor").context(placeText(program, s));
    if (list && first.kind() != plan::ALL_GATHER && first.kind() != plan::REDUCE_SCATTER)
      return Status::error("only gathers and scatters are sent together as a list").context(placeText(program, s));
    const uint32_t joined = std::max(first.joined(), first.along());
    if (joined >= order.sectionOf(uint32_t(s)).end - uint32_t(s))
      return Status::error("joins " + std::to_string(joined) + " steps, more than there are behind it in its section")
          .context(placeText(program, s));
    const int end = s + int(joined);
    for (int member = s + 1; member <= end; ++member)
      TESSERA_RETURN_IF_ERROR(checkAlike(plan, first, program.steps(s).resource(), program.steps(member))
                                  .context(placeText(program, member)));
    TESSERA_RETURN_IF_ERROR(list ? checkList(ranges, program, s, end) : checkSideBySide(plan, ranges, program, s, end));
    s = end;
  }
  return Status();
}

} // namespace tessera::rt
