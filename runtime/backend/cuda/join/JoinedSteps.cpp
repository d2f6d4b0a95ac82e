#include "runtime/backend/cuda/join/JoinedSteps.h"

#include "runtime/backend/cuda/bind/RowPieces.h"

#include <algorithm>

namespace tessera::rt::cuda {

JoinedProgram::JoinedProgram(const plan::Program &program, const std::vector<ByteRange> &buffers)
    : order_(program), accesses_(accessesOf(program, buffers)) {}

std::optional<size_t> JoinedProgram::place(const StepSet &set) const {
  if (set.steps.back() >= order_.sectionOf(uint32_t(set.steps.front())).end)
    return std::nullopt;
  // Steps in between that conflict with an earlier step of the set must run after the whole set, and those that
  // conflict with a later one before it.
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
/// How often a search starts again.
constexpr int kRounds = 8;
/// The most numbers that a step behind a chain reads and makes. To run it later then keeps no memory.
constexpr int64_t kFewNumbers = 1024;

class RowSearch {
public:
  RowSearch(const plan::Program &program, const std::vector<KernelCall> &calls, const std::vector<ByteRange> &buffers,
            const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options)
      : program_(program), calls_(calls), buffers_(buffers), uses_(uses), joined_(joined), options_(options) {}

  /// Tries all ways to see rows and takes the one that joins most steps.
  std::optional<JoinedKernel> from(size_t first) {
    if (piecesOf(first).empty())
      return std::nullopt;
    std::vector<Rows> sizes = rowsOf(piecesOf(first));
    steps_ = {first};
    for (size_t s = first + 1; sizes.empty() && s < calls_.size() && s - first <= kWindow; ++s)
      if (readsMember(s)) // a loop without reductions takes its reader's rows
        sizes = rowsOf(piecesOf(s));
    std::optional<JoinedKernel> best;
    for (const Rows &size : sizes) {
      size_ = size;
      if (search(first) && (!best || best->set.steps.size() < steps_.size()))
        best = JoinedKernel{set_, bindRows(*chain_)};
    }
    if (best)
      addFollowers(*best);
    return best;
  }

private:
  /// A step may only be possible together with the next one, which takes what it writes. So steps are added first and
  /// judged later. A step that no later one makes possible is left out, and the search starts again.
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
      if (piecesOf(s).empty())
        continue;
      steps_.push_back(s);
      if (!build())
        steps_.pop_back();
      else if (possible())
        good = steps_.size();
    }
    return good;
  }

  bool possible() const {
    if (!chain_->separate)
      return false;
    return joined_.place(set_) || joined_.place(withFollowers(set_));
  }

  /// The set with the steps between its own that read what it makes, and that it does not wait for. They stand in its
  /// way only because of the program's order, as the loss itself does between the loss's sum and its gradient.
  StepSet withFollowers(StepSet set) const {
    for (size_t s = set.steps.front() + 1; s < set.steps.back(); ++s)
      if (!std::binary_search(set.steps.begin(), set.steps.end(), s) && follows(set, s)) {
        const auto at = std::lower_bound(set.steps.begin(), set.steps.end(), s) - set.steps.begin();
        set.steps.insert(set.steps.begin() + at, s);
        set.accesses.insert(set.accesses.begin() + at, joined_.accesses()[s]);
      }
    return set;
  }
  bool follows(const StepSet &set, size_t s) const {
    const KernelCall &call = calls_[s];
    if (!call.kernel || !isExpressionKernel(call.name()) || joined_.taken(s))
      return false;
    int64_t numbers = 0;
    for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
      for (const TensorView &view : *views)
        numbers += view.elements();
    bool reads = false;
    for (size_t i = 0; i < set.steps.size(); ++i)
      if (set.steps[i] < s)
        reads = reads || conflict(joined_.accesses()[s], set.accesses[i]);
      else if (conflict(joined_.accesses()[s], set.accesses[i]))
        return false;
    return reads && numbers <= kFewNumbers;
  }
  /// Lets them run behind the chain, as launches of their own.
  void addFollowers(JoinedKernel &chain) const {
    if (joined_.place(chain.set))
      return;
    StepSet all = withFollowers(chain.set);
    for (size_t s : all.steps) {
      if (std::binary_search(chain.set.steps.begin(), chain.set.steps.end(), s))
        continue;
      const Result<std::vector<CudaKernel>> choices = bindCuda(calls_[s], options_);
      if (!choices || choices->empty() || choices->front().scratch > 0)
        return; // the set has no place then
      const std::vector<Action> &more = choices->front().actions;
      chain.kernel.actions.insert(chain.kernel.actions.end(), more.begin(), more.end());
    }
    chain.set = std::move(all);
  }

  const plan::Kernel &kernel(size_t step) const { return program_.steps(int(step)).kernel(); }

  const std::vector<RowPiece> &piecesOf(size_t s) {
    const auto [entry, added] = pieces_.try_emplace(s);
    if (added && calls_[s].kernel && !joined_.taken(s))
      entry->second = rowPieces(calls_[s]);
    return entry->second;
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

  /// Where the first `count` steps make the operand `i` of step `s`: the step's place in steps_ and its output. False:
  /// in a way that it cannot be taken over.
  bool source(size_t s, int i, size_t count, std::optional<std::pair<size_t, size_t>> &found) const {
    const uint32_t in = kernel(s).inputs(i);
    for (size_t m = 0; m < count; ++m)
      for (int o = 0; o < kernel(steps_[m]).outputs_size(); ++o) {
        const uint32_t out = kernel(steps_[m]).outputs(o);
        if (uses_.root(in) != uses_.root(out))
          continue;
        const TensorView &made = calls_[steps_[m]].outputs[size_t(o)], &read = calls_[s].inputs[size_t(i)];
        if (uses_.writes(out) != 1 || made.data != read.data || made.dtype != read.dtype ||
            made.elements() != read.elements() || made.layout != read.layout ||
            (!made.layout.inner.empty() && made.shape != read.shape))
          return false;
        found = {m, size_t(o)};
      }
    return true;
  }

  /// The steps as one, if they fit each other.
  bool build() {
    std::map<uint32_t, int> reads; // by the members, of buffers that count as one
    for (size_t s : steps_)
      for (uint32_t in : kernel(s).inputs())
        ++reads[uses_.root(in)];
    // An output that no step reads may be read from outside of the plan.
    auto stored = [&](uint32_t out) {
      const int inside = reads[uses_.root(out)];
      return uses_.kept(out) || uses_.writes(out) != 1 || inside == 0 || uses_.reads(out) != inside;
    };
    std::vector<RowMember> members;
    std::vector<size_t> begins;   // of a step's members
    std::vector<FreeMemory> free; // of what is not stored
    std::vector<size_t> freeOf;   // its step's place in steps_
    set_ = StepSet();
    set_.steps = steps_;
    for (size_t m = 0; m < steps_.size(); ++m) {
      const size_t s = steps_[m];
      const std::vector<RowPiece> &pieces = piecesOf(s);
      begins.push_back(members.size());
      addMembers(members, pieces, calls_[s]);
      StepAccess access;
      for (int i = 0; i < kernel(s).inputs_size(); ++i) {
        std::optional<std::pair<size_t, size_t>> made;
        if (!source(s, i, m, made))
          return false;
        if (made)
          takeOver(members, begins, m, size_t(i), *made);
        else
          access.reads.push_back(buffers_[kernel(s).inputs(i)]);
      }
      for (int o = 0; o < kernel(s).outputs_size(); ++o) {
        const uint32_t out = kernel(s).outputs(o);
        if (stored(out)) {
          access.writes.push_back(buffers_[out]);
          continue;
        }
        const TensorView &view = calls_[s].outputs[size_t(o)];
        free.push_back({view.data, view.bytes()});
        freeOf.push_back(m);
        for (size_t p = 0; p < pieces.size(); ++p)
          for (size_t r = 0; r < pieces[p].outputs.size(); ++r)
            if (pieces[p].outputs[r] == size_t(o))
              members[begins[m] + p].stored[r] = false;
      }
      set_.accesses.push_back(std::move(access));
    }
    chain_ = mergeRows(members, size_, free);
    if (!chain_)
      return false;
    // What is used of the free memory is written like a result.
    for (const RowPointer &pointer : chain_->pointers)
      for (size_t f = 0; f < free.size(); ++f)
        if (pointer.elsewhere && pointer.elsewhere == free[f].data) {
          const size_t out = buffer(steps_[freeOf[f]], free[f].data);
          set_.accesses[freeOf[f]].writes.push_back({buffers_[out].begin, buffers_[out].begin + pointer.bytes});
          break;
        }
    return true;
  }

  /// The buffer that a step writes at this address.
  size_t buffer(size_t s, const void *data) const {
    size_t o = 0;
    while (calls_[s].outputs[o].data != data)
      ++o;
    return kernel(s).outputs(int(o));
  }

  /// Operand `i` of the step at place `m` is taken from the step at place made.first, whose output made.second it is.
  void takeOver(std::vector<RowMember> &members, const std::vector<size_t> &begins, size_t m, size_t i,
                const std::pair<size_t, size_t> &made) {
    const std::vector<RowPiece> &pieces = piecesOf(steps_[m]), &makers = piecesOf(steps_[made.first]);
    RowMember::Source from{0, 0};
    for (size_t p = 0; p < makers.size(); ++p)
      for (size_t r = 0; r < makers[p].outputs.size(); ++r)
        if (makers[p].outputs[r] == made.second)
          from = {begins[made.first] + p, r};
    for (size_t p = 0; p < pieces.size(); ++p)
      for (size_t in = 0; in < pieces[p].inputs.size(); ++in)
        if (!pieces[p].inputs[in].made && pieces[p].inputs[in].operand == i)
          members[begins[m] + p].from[in] = from;
  }

  const plan::Program &program_;
  const std::vector<KernelCall> &calls_;
  const std::vector<ByteRange> &buffers_;
  const BufferUses &uses_;
  const JoinedProgram &joined_;
  const BindOptions &options_;
  Rows size_;
  std::map<size_t, std::vector<RowPiece>> pieces_; // of the steps that were looked at
  std::vector<size_t> steps_;
  StepSet set_;
  std::optional<RowChain> chain_;
};

} // namespace

std::optional<JoinedKernel> rowsFrom(const plan::Program &program, const std::vector<KernelCall> &calls, size_t first,
                                     const std::vector<ByteRange> &buffers, const BufferUses &uses,
                                     const JoinedProgram &joined, const BindOptions &options) {
  return RowSearch(program, calls, buffers, uses, joined, options).from(first);
}

} // namespace tessera::rt::cuda
