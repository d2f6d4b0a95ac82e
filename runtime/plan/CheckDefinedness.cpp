// checkDefinedness: every read was written.
//
// The state is a set of disjoint intervals of the arena, each held by the buffer that was written
// there last. Writing a buffer evicts every interval it touches; a buffer is defined while its own
// interval is there. Every interval is inserted and erased at most once per write, so a program of
// n steps costs O(n log n) however its buffers overlap.
//
// What a call of a section proves depends on the state in which it is entered, and on nothing else. A loop soon enters
// its section in the state in which it entered it before: such a call proves nothing new and is not walked again.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"

#include <map>
#include <utility>

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
      if (it->second != range.root)
        evicted_[it->second] = buffer;
      it = held_.erase(it);
    }
    held_.emplace(range.begin, range.root);
  }

  /// Which buffers are defined, and where: begin -> root.
  using State = std::map<uint64_t, uint32_t>;
  const State &state() const { return held_; }
  void restore(const State &state) { held_ = state; }

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
  State held_;
  std::map<uint32_t, uint32_t> evicted_; // root -> the buffer that was written over it last
};

/// Runs the calls of a program's sections in order.
class Calls {
public:
  Calls(const plan::Program &program, Simulation &state)
      : program_(program), state_(state), order_(program), proved_(order_.sections().size()) {}

  Status run() {
    for (const SectionCall &call : order_.calls()) {
      const Section &section = order_.sections()[call.section];
      // Comparing states takes as long as a walk over as many steps.
      if (section.calls < 2 || section.end - section.begin < state_.state().size()) {
        TESSERA_RETURN_IF_ERROR(walk(section, call.index));
        continue;
      }
      Proved &proved = proved_[call.section];
      if (proved.known && proved.before == state_.state()) {
        if (!proved.steady)
          state_.restore(proved.after);
        continue;
      }
      proved.before = state_.state();
      TESSERA_RETURN_IF_ERROR(walk(section, call.index));
      proved.after = state_.state();
      proved.steady = proved.before == proved.after;
      proved.known = true;
    }
    return Status();
  }

private:
  /// The states before and after a section's last call that was walked.
  struct Proved {
    bool known = false, steady = false; // steady: the two are the same
    Simulation::State before, after;
  };

  Status walk(const Section &section, uint32_t index) {
    for (uint32_t s = section.begin; s < section.end; ++s)
      TESSERA_RETURN_IF_ERROR(step({s, index}));
    return Status();
  }

  Status step(StepInTime at) {
    const plan::Step &step = program_.steps(int(at.step));
    auto reads = [&](uint32_t buffer) {
      Status status = state_.read(buffer);
      if (status.ok()) // building the message costs more than the rest
        return status;
      const std::string call = order_.callText(at);
      return status.context("step " + std::to_string(at.step) + " " + quoted(step.name()) + " of program " +
                            quoted(program_.name()) + (call.empty() ? "" : ", " + call));
    };
    if (step.has_collective()) {
      TESSERA_RETURN_IF_ERROR(reads(step.collective().input()));
      state_.write(step.collective().output());
      return Status();
    }
    for (uint32_t in : step.kernel().inputs())
      TESSERA_RETURN_IF_ERROR(reads(in));
    for (uint32_t out : step.kernel().outputs())
      state_.write(out);
    return Status();
  }

  const plan::Program &program_;
  Simulation &state_;
  const TimeOrder order_;
  std::vector<Proved> proved_; // by section
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
  TESSERA_RETURN_IF_ERROR(Calls(program, state).run());
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
