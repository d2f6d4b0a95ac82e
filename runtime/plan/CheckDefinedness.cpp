// checkDefinedness: every read was written.
//
// Steps run one after the other here. checkLanes proves that every other timing does the same.
//
// The state is a set of disjoint intervals of the arena, each held by the buffer that was written
// there last. Writing a buffer evicts every interval it touches; a buffer is defined while its own
// interval is there. Every interval is inserted and erased at most once per write, so a program of
// n steps costs O(n log n) however its buffers overlap.
//
// A buffer of a frame has an interval in each place. What a call finds there must come from a call with the same index:
// so a frame that has too few places for the calls that are under way is found.
//
// What a call of a section proves depends on the state in which it is entered, and on nothing else, unless it uses
// frames. A loop soon enters its section in the state in which it entered it before: such a call proves nothing new and
// is not walked again.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"

#include <map>
#include <utility>

namespace tessera::rt {
namespace {

/// What is in an interval: the root of a buffer; and for buffers of frames 1 + the index of the call that wrote it.
struct Held {
  uint32_t root = 0;
  uint64_t call = 0;
  bool operator==(const Held &) const = default;
};

class Simulation {
public:
  Simulation(const plan::Plan &plan, const std::vector<BufferRange> &ranges)
      : plan_(plan), ranges_(ranges), frames_(plan) {}

  void write(uint32_t buffer, uint32_t index = 0) {
    const Held mine = heldBy(buffer, index);
    const uint64_t begin = beginOf(buffer, index), end = begin + sizeOf(mine);
    auto it = held_.lower_bound(begin);
    if (it != held_.begin() && std::prev(it)->first + sizeOf(std::prev(it)->second) > begin)
      --it;
    while (it != held_.end() && it->first < end) {
      if (it->second.root != mine.root)
        evicted_[it->second.root] = buffer;
      it = held_.erase(it);
    }
    held_.emplace(begin, mine);
  }

  /// What is held where, by first byte.
  using State = std::map<uint64_t, Held>;
  const State &state() const { return held_; }
  void restore(const State &state) { held_ = state; }

  Status read(uint32_t buffer, uint32_t index = 0) const {
    const Held mine = heldBy(buffer, index);
    auto it = held_.find(beginOf(buffer, index));
    if (it != held_.end() && it->second == mine)
      return Status();
    const std::string what = "reads " + bufferText(plan_, buffer);
    if (it != held_.end() && it->second.root == mine.root)
      return Status::error(what + ", but its place holds what micro-batch " + std::to_string(it->second.call) +
                           " wrote: its frame of " + std::to_string(frames_.slots(ranges_[buffer].begin)) +
                           " places has too few for these calls");
    auto by = evicted_.find(mine.root);
    return Status::error(what + (by == evicted_.end()
                                     ? ", which nothing has written"
                                     : ", which " + bufferText(plan_, by->second) + " has overwritten"));
  }

  bool inFrame(uint32_t buffer) const { return frames_.frameOf(ranges_[buffer].begin) >= 0; }
  bool hasFrames() const { return !frames_.empty(); }

private:
  Held heldBy(uint32_t buffer, uint32_t index) const {
    return {ranges_[buffer].root, inFrame(buffer) ? uint64_t(index) + 1 : 0};
  }
  uint64_t beginOf(uint32_t buffer, uint32_t index) const {
    const uint64_t begin = ranges_[ranges_[buffer].root].begin; // a part is there with the whole
    return begin + frames_.shift(begin, index);
  }
  uint64_t sizeOf(const Held &held) const { return ranges_[held.root].end - ranges_[held.root].begin; }

  const plan::Plan &plan_;
  const std::vector<BufferRange> &ranges_;
  const Frames frames_;
  State held_;
  std::map<uint32_t, uint32_t> evicted_; // root -> the buffer that was written over it last
};

/// Runs the calls of a program's sections in order.
class Calls {
public:
  Calls(const plan::Program &program, Simulation &state)
      : program_(program), state_(state), order_(program), proved_(order_.sections().size()) {
    for (const Section &section : order_.sections())
      framed_.push_back(usesFrames(section));
  }

  Status run() {
    for (const SectionCall &call : order_.calls()) {
      const Section &section = order_.sections()[call.section];
      // Comparing states takes as long as a walk over as many steps.
      if (framed_[call.section] || section.calls < 2 || section.end - section.begin < state_.state().size()) {
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

  bool usesFrames(const Section &section) const {
    std::array<uint32_t, 2> own;
    for (uint32_t s = section.begin; state_.hasFrames() && s < section.end; ++s) {
      const Operands operands = operandsOf(program_.steps(int(s)), own);
      for (std::span<const uint32_t> buffers : {operands.read, operands.written})
        for (uint32_t buffer : buffers)
          if (state_.inFrame(buffer))
            return true;
    }
    return false;
  }

  Status walk(const Section &section, uint32_t index) {
    for (uint32_t s = section.begin; s < section.end; ++s)
      TESSERA_RETURN_IF_ERROR(step({s, index}));
    return Status();
  }

  Status step(StepInTime at) {
    const plan::Step &step = program_.steps(int(at.step));
    auto reads = [&](uint32_t buffer) {
      Status status = state_.read(buffer, at.index);
      if (status.ok()) // building the message costs more than the rest
        return status;
      const std::string call = order_.callText(at);
      return status.context("step " + std::to_string(at.step) + " " + quoted(step.name()) + " of program " +
                            quoted(program_.name()) + (call.empty() ? "" : ", " + call));
    };
    std::array<uint32_t, 2> own;
    const Operands operands = operandsOf(step, own);
    for (uint32_t in : operands.read)
      TESSERA_RETURN_IF_ERROR(reads(in));
    for (uint32_t out : operands.written)
      state_.write(out, at.index);
    return Status();
  }

  const plan::Program &program_;
  Simulation &state_;
  const TimeOrder order_;
  std::vector<Proved> proved_; // by section
  std::vector<bool> framed_;   // by section: it uses buffers of frames
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

Operands operandsOf(const plan::Step &step, std::array<uint32_t, 2> &own) {
  switch (step.kind_case()) {
  case plan::Step::kCollective:
    own = {step.collective().input(), step.collective().output()};
    return {{&own[0], 1}, {&own[1], 1}};
  case plan::Step::kSend:
    own[0] = step.send().input();
    return {{&own[0], 1}, {}};
  case plan::Step::kReceive:
    own[0] = step.receive().output();
    return {{}, {&own[0], 1}};
  default:
    return {{step.kernel().inputs().data(), size_t(step.kernel().inputs_size())},
            {step.kernel().outputs().data(), size_t(step.kernel().outputs_size())}};
  }
}

Status checkDefinedness(const plan::Plan &plan, const std::vector<BufferRange> &ranges) {
  for (const plan::Program &program : plan.programs())
    TESSERA_RETURN_IF_ERROR(simulate(plan, ranges, program));
  return Status();
}

} // namespace tessera::rt
