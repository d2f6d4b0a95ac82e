// checkDefinedness: every read was written.
//
// The state is a set of disjoint intervals of the arena, each held by the buffer that was written
// there last. Writing a buffer evicts every interval it touches; a buffer is defined while its own
// interval is there. Every interval is inserted and erased at most once per write, so a program of
// n steps costs O(n log n) however its buffers overlap.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"

#include <map>

namespace tessera::rt {
namespace {

class Simulation {
public:
  Simulation(const plan::Plan &plan, const std::vector<BufferRange> &ranges) : plan_(plan), ranges_(ranges) {}

  void write(uint32_t buffer) {
    const BufferRange &range = ranges_[buffer];
    auto it = held_.lower_bound(range.begin);
    if (it != held_.begin() && ranges_[std::prev(it)->second].end > range.begin)
      --it;
    while (it != held_.end() && it->first < range.end) {
      evicted_[it->second] = buffer;
      it = held_.erase(it);
    }
    held_.emplace(range.begin, range.root);
  }

  Status read(uint32_t buffer) const {
    const BufferRange &range = ranges_[buffer];
    auto it = held_.find(range.begin);
    if (it != held_.end() && it->second == range.root)
      return Status();
    auto by = evicted_.find(range.root);
    return Status::error("reads " + bufferText(plan_, buffer) +
                         (by == evicted_.end() ? ", which nothing has written"
                                               : ", which " + bufferText(plan_, by->second) + " has overwritten"));
  }

private:
  const plan::Plan &plan_;
  const std::vector<BufferRange> &ranges_;
  std::map<uint64_t, uint32_t> held_;    // begin -> root
  std::map<uint32_t, uint32_t> evicted_; // root -> the buffer that was written over it last
};

Status simulate(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program) {
  Simulation state(plan, ranges);
  for (uint32_t b = 0; b < ranges.size(); ++b)
    if (!plan.buffers(int(b)).constant().empty())
      state.write(b);
  auto forEach = [&](auto accept, auto &&action) -> Status {
    for (const plan::Binding &binding : plan.bindings())
      if (accept(binding))
        TESSERA_RETURN_IF_ERROR(action(binding));
    return Status();
  };
  auto lasting = [](const plan::Binding &b) { return b.role() == plan::PARAMETER || b.role() == plan::STATE; };
  auto fed = [&](const plan::Binding &b) {
    return b.program() == program.name() &&
           (b.role() == plan::INPUT || b.role() == plan::TARGET || b.role() == plan::STEP);
  };
  auto fetched = [&](const plan::Binding &b) { return lasting(b) || (b.program() == program.name() && !fed(b)); };
  auto write = [&](const plan::Binding &b) {
    state.write(b.buffer());
    return Status();
  };
  TESSERA_RETURN_IF_ERROR(forEach(lasting, write));
  TESSERA_RETURN_IF_ERROR(forEach(fed, write));
  // All inputs are filled before the first step, so none may lie in another one's place.
  TESSERA_RETURN_IF_ERROR(forEach(fed, [&](const plan::Binding &b) {
    return state.read(b.buffer()).context("feeding program " + quoted(program.name()));
  }));
  for (int s = 0; s < program.steps_size(); ++s) {
    const plan::Step &step = program.steps(s);
    auto reads = [&](uint32_t buffer) {
      return state.read(buffer).context("step " + std::to_string(s) + " " + quoted(step.name()) + " of program " +
                                        quoted(program.name()));
    };
    if (step.has_collective()) {
      TESSERA_RETURN_IF_ERROR(reads(step.collective().input()));
      state.write(step.collective().output());
      continue;
    }
    for (uint32_t in : step.kernel().inputs())
      TESSERA_RETURN_IF_ERROR(reads(in));
    for (uint32_t out : step.kernel().outputs())
      state.write(out);
  }
  return forEach(fetched, [&](const plan::Binding &b) {
    return state.read(b.buffer())
        .context("the end of program " + quoted(program.name()) + " (" + roleName(b.role()) + " " + quoted(b.name()) +
                 ")");
  });
}

} // namespace

Status checkDefinedness(const plan::Plan &plan, const std::vector<BufferRange> &ranges) {
  for (const plan::Program &program : plan.programs())
    TESSERA_RETURN_IF_ERROR(simulate(plan, ranges, program));
  return Status();
}

} // namespace tessera::rt
