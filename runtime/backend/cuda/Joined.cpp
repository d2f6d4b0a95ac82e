#include "runtime/backend/cuda/Joined.h"

#include "runtime/backend/cuda/ChannelsLast.h"
#include "runtime/backend/cuda/RowChain.h"

#include <algorithm>

namespace tessera::rt::cuda {

BufferUses::BufferUses(const plan::Plan &plan)
    : root_(static_cast<size_t>(plan.buffers_size())), reads_(root_.size(), 0),
      writes_(root_.size(), 0), kept_(root_.size(), false) {
  for (uint32_t b = 0; b < root_.size(); ++b) {
    root_[b] = b;
    for (size_t hops = 0; hops < root_.size(); ++hops)
      if (const uint32_t alias = plan.buffers(static_cast<int>(root_[b])).alias_of_plus_one())
        root_[b] = alias - 1;
      else
        break;
    if (plan.buffers(static_cast<int>(b)).persistent())
      kept_[root_[b]] = true;
  }
  for (const plan::Binding &binding : plan.bindings())
    kept_[root(binding.buffer())] = true;
  for (const plan::Program &program : plan.programs())
    for (const plan::Step &step : program.steps()) {
      if (step.has_collective()) {
        ++reads_[root(step.collective().input())];
        ++writes_[root(step.collective().output())];
        continue;
      }
      for (uint32_t b : step.kernel().inputs())
        ++reads_[root(b)];
      for (uint32_t b : step.kernel().outputs())
        ++writes_[root(b)];
    }
}

JoinedProgram::JoinedProgram(const plan::Program &program, const std::vector<ByteRange> &buffers)
    : accesses_(accessesOf(program, buffers)) {}

std::optional<size_t> JoinedProgram::place(const StepSet &set) const {
  // What stands between and conflicts with an earlier step of the set comes after all of it, what conflicts with a later one
  // before.
  size_t after = 0, before = set.steps.back() + 1;
  for (size_t s = set.steps.front() + 1; s < set.steps.back(); ++s) {
    if (std::binary_search(set.steps.begin(), set.steps.end(), s))
      continue;
    for (size_t i = 0; i < set.steps.size(); ++i)
      if (conflict(accesses_[s], set.accesses[i])) {
        if (set.steps[i] < s)
          before = std::min(before, s);
        else
          after = s;
      }
  }
  for (size_t i = set.steps.size(); i-- > 0;)
    if (set.steps[i] < before && set.steps[i] >= after)
      return set.steps[i];
  return std::nullopt;
}

void JoinedProgram::join(const StepSet &set, size_t place) {
  StepAccess all;
  for (size_t i = 0; i < set.steps.size(); ++i) {
    const StepAccess &a = set.accesses[i];
    all.reads.insert(all.reads.end(), a.reads.begin(), a.reads.end());
    all.writes.insert(all.writes.end(), a.writes.begin(), a.writes.end());
    accesses_[set.steps[i]] = StepAccess();
    places_[set.steps[i]] = place;
  }
  accesses_[place] = std::move(all);
}

std::optional<size_t> JoinedProgram::placeOf(size_t step) const {
  const auto found = places_.find(step);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

/// How many steps that are no part of it a chain may pass before it ends.
constexpr size_t kWindow = 64;
/// How often a search is begun anew.
constexpr int kRounds = 8;

class RowSearch {
public:
  RowSearch(const plan::Program &program, const std::vector<KernelCall> &calls,
            const std::vector<ByteRange> &buffers, const BufferUses &uses,
            const JoinedProgram &joined)
      : program_(program), calls_(calls), buffers_(buffers), uses_(uses), joined_(joined) {}

  /// Of the ways to see rows the one that takes most steps.
  std::optional<JoinedKernel> from(size_t first) {
    std::optional<ExpressionCode> code = codeOf(first);
    if (!code)
      return std::nullopt;
    const std::vector<Rows> sizes = rowsOf(*code);
    codes_.emplace(first, std::move(code));
    std::optional<JoinedKernel> best;
    for (const Rows &size : sizes) {
      size_ = size;
      if (search(first) && (!best || best->set.steps.size() < steps_.size()))
        best = JoinedKernel{set_, bindRows(*chain_)};
    }
    return best;
  }

private:
  /// A step may be impossible without the next one, which takes what it writes: so steps are taken in first and judged later. If
  /// none of those that follow makes it possible, it is left out and the search begins anew.
  bool search(size_t first) {
    std::vector<size_t> leftOut;
    for (int round = 0; round < kRounds; ++round) {
      const size_t good = grow(first, leftOut);
      if (good == steps_.size())
        return good > 1 && build() && possible();
      leftOut.push_back(steps_[good]);
    }
    return false;
  }

  /// All steps that belong to `first`, and how many of them, from the first, can be one kernel.
  size_t grow(size_t first, const std::vector<size_t> &leftOut) {
    size_t good = 1;
    steps_ = {first};
    for (size_t s = first + 1; s < calls_.size() && s - steps_.back() <= kWindow; ++s) {
      if (!readsMember(s) || std::find(leftOut.begin(), leftOut.end(), s) != leftOut.end())
        continue;
      if (!codes_.contains(s))
        codes_.emplace(s, codeOf(s));
      if (!codes_.at(s))
        continue;
      steps_.push_back(s);
      if (!build())
        steps_.pop_back();
      else if (possible())
        good = steps_.size();
    }
    return good;
  }

  bool possible() const { return chain_->separate && joined_.place(set_); }

  const plan::Kernel &kernel(size_t step) const {
    return program_.steps(static_cast<int>(step)).kernel();
  }

  std::optional<ExpressionCode> codeOf(size_t s) const {
    if (!calls_[s].kernel || joined_.taken(s) || !isExpressionKernel(calls_[s].name()))
      return std::nullopt;
    Result<ExpressionCode> code = lowerExpression(calls_[s]);
    if (!code)
      return std::nullopt;
    for (const std::vector<TensorView> *views : {&calls_[s].inputs, &calls_[s].outputs})
      for (const TensorView &view : *views)
        if (!view.layout.plain())
          return withChannelsLast(*code, calls_[s]);
    return std::move(*code);
  }

  bool readsMember(size_t s) const {
    if (!calls_[s].kernel)
      return false;
    for (uint32_t in : kernel(s).inputs())
      for (size_t m : steps_)
        for (uint32_t out : kernel(m).outputs())
          if (uses_.root(in) == uses_.root(out))
            return true;
    return false;
  }

  /// Where the members before `count` make the buffer that input `i` of step `s` is. False: in a way that it cannot be taken
  /// over.
  bool source(size_t s, int i, size_t count, std::optional<RowMember::Source> &found) const {
    const uint32_t in = kernel(s).inputs(i);
    for (size_t m = 0; m < count; ++m)
      for (int o = 0; o < kernel(steps_[m]).outputs_size(); ++o) {
        const uint32_t out = kernel(steps_[m]).outputs(o);
        if (uses_.root(in) != uses_.root(out))
          continue;
        const TensorView &made = calls_[steps_[m]].outputs[static_cast<size_t>(o)],
                         &read = calls_[s].inputs[static_cast<size_t>(i)];
        if (uses_.writes(out) != 1 || made.data != read.data || made.dtype != read.dtype ||
            made.elements() != read.elements() || made.layout.plain() != read.layout.plain() ||
            (!made.layout.plain() && made.shape != read.shape))
          return false;
        found = RowMember::Source{m, static_cast<size_t>(o)};
      }
    return true;
  }

  /// The steps as one, if they fit each other.
  bool build() {
    std::map<uint32_t, int> reads; // by the members, of buffers that count as one
    for (size_t s : steps_)
      for (uint32_t in : kernel(s).inputs())
        ++reads[uses_.root(in)];
    std::vector<RowMember> members;
    set_ = StepSet();
    set_.steps = steps_;
    for (size_t m = 0; m < steps_.size(); ++m) {
      const size_t s = steps_[m];
      RowMember member;
      member.code = &*codes_.at(s);
      member.call = &calls_[s];
      StepAccess access;
      for (int i = 0; i < kernel(s).inputs_size(); ++i) {
        member.from.emplace_back();
        if (!source(s, i, m, member.from.back()))
          return false;
        if (!member.from.back())
          access.reads.push_back(buffers_[kernel(s).inputs(i)]);
      }
      for (uint32_t out : kernel(s).outputs()) {
        const uint32_t root = uses_.root(out);
        // What nobody at all reads is looked at from outside of the plan.
        member.stored.push_back(uses_.kept(out) || uses_.writes(out) != 1 || reads[root] == 0 ||
                                uses_.reads(out) != reads[root]);
        if (member.stored.back())
          access.writes.push_back(buffers_[out]);
      }
      members.push_back(std::move(member));
      set_.accesses.push_back(std::move(access));
    }
    chain_ = mergeRows(members, size_);
    return chain_.has_value();
  }

  const plan::Program &program_;
  const std::vector<KernelCall> &calls_;
  const std::vector<ByteRange> &buffers_;
  const BufferUses &uses_;
  const JoinedProgram &joined_;
  Rows size_;
  std::map<size_t, std::optional<ExpressionCode>> codes_; // of the steps that were looked at
  std::vector<size_t> steps_;
  StepSet set_;
  std::optional<RowChain> chain_;
};

} // namespace

std::optional<JoinedKernel> rowsFrom(const plan::Program &program,
                                     const std::vector<KernelCall> &calls, size_t first,
                                     const std::vector<ByteRange> &buffers, const BufferUses &uses,
                                     const JoinedProgram &joined) {
  return RowSearch(program, calls, buffers, uses, joined).from(first);
}

} // namespace tessera::rt::cuda
