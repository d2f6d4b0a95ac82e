#include "runtime/backend/cuda/join/SumLoops.h"

#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/join/SquaredDistances.h"

#include <algorithm>
#include <map>

namespace tessera::rt::cuda {
namespace {

/// How many steps that do not fit may stand between two that do.
constexpr size_t kWindow = 64;

/// Memory that the last launch reads or writes.
struct Touch {
  const char *begin = nullptr, *end = nullptr;
  uint64_t element = 0; // bytes of the element that the thread of a result touches; 0: it touches others, too
  bool written = false;
};
Touch touch(const TensorView &view, bool own, bool written) {
  const char *begin = view.as<const char>();
  return {begin, begin + view.bytes(), own ? bytesPerElement(view.dtype) : 0, written};
}
/// Whether two threads may come to the same byte, and one writes it.
bool collide(const Touch &a, const Touch &b) {
  const bool meets = a.begin < b.end && b.begin < a.end;
  return meets && (a.written || b.written) && (a.element == 0 || a.element != b.element || a.begin != b.begin);
}

class SumLoops {
public:
  SumLoops(JoinedKernel &sums, const plan::Program &program, const std::vector<KernelCall> &calls,
           const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options)
      : sums_(sums), program_(program), calls_(calls), uses_(uses), joined_(joined), options_(options) {}

  void add() {
    const auto *last = sums_.kernel.actions.empty() ? nullptr : std::get_if<Launch>(&sums_.kernel.actions.back());
    if (!last || !last->end)
      return;
    points_ = last->points;
    for (size_t s : sums_.set.steps)
      touchAll(calls_[s], *last);
    if (sums_.set.steps.size() == 1)
      code_ = onlySums(calls_[sums_.set.steps.front()]);
    const size_t bare = sums_.set.steps.size();
    for (size_t s = sums_.set.steps.back() + 1; s < calls_.size() && s - sums_.set.steps.back() <= kWindow; ++s)
      if (readsSet(s) && !appendLoop(s))
        appendDistances(s);
    if (sums_.set.steps.size() > bare)
      write();
  }

private:
  /// A loop over the results, and the addresses of its parameters.
  struct Appended {
    PointLoop loop;
    std::vector<Place> arguments;
  };

  void touchAll(const KernelCall &call, const Launch &last) {
    // What another launch has read does not matter any more, nor what all blocks have before the last one goes on.
    if (sums_.kernel.actions.size() == 1 && !last.end->alone)
      for (const TensorView &view : call.inputs)
        touches_.push_back(touch(view, false, false));
    for (const TensorView &view : call.outputs) {
      bool ends = false;
      for (size_t p = 0; p < last.end->parameters.size(); ++p)
        ends = ends || (last.end->parameters[p].name.starts_with("out") && !last.arguments[p].scratch &&
                        last.arguments[p].value == at(view.data).value);
      touches_.push_back(touch(view, ends && view.elements() == points_, true));
    }
  }

  /// The expression of a step over the points as they lie.
  static std::optional<ExpressionCode> lying(const KernelCall &call) {
    if (!isExpressionKernel(call.name()))
      return std::nullopt;
    const Result<ExpressionCode> code = lowerExpression(call);
    bool plain = true;
    for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
      for (const TensorView &view : *views)
        plain = plain && view.layout.plain();
    return !code ? std::nullopt : plain ? std::optional(*code) : withChannelsLast(*code, call);
  }

  /// The expression of a step that makes nothing but sums over the same dimensions, in one kernel.
  static std::optional<ExpressionCode> onlySums(const KernelCall &call) {
    std::optional<ExpressionCode> code = lying(call);
    if (code)
      for (const ExpressionResult &r : code->results)
        if (r.reduction != plan::SUM || r.view != code->results.front().view)
          return std::nullopt;
    return code && code->results.size() < kMostSums ? code : std::nullopt;
  }

  const plan::Kernel &kernel(size_t step) const { return program_.steps(int(step)).kernel(); }

  bool readsSet(size_t s) const {
    if (!calls_[s].kernel || joined_.taken(s))
      return false;
    for (uint32_t in : kernel(s).inputs())
      for (size_t m : sums_.set.steps)
        for (uint32_t out : kernel(m).outputs())
          if (uses_.root(in) == uses_.root(out))
            return true;
    return false;
  }

  /// Joins a step that is a loop over the results.
  bool appendLoop(size_t s) {
    const KernelCall &call = calls_[s];
    const std::optional<ExpressionCode> code = lying(call);
    if (!code || elementCount(code->domain) != points_)
      return false;
    std::vector<Touch> own;
    for (size_t i = 0; i < code->inputs.size(); ++i)
      own.push_back(touch(call.inputs[i], elementCount(code->inputs[i].view) == points_, false));
    for (size_t r = 0; r < code->results.size(); ++r) {
      if (code->results[r].reduction != plan::NONE)
        return false;
      own.push_back(touch(call.outputs[r], true, true));
    }
    const Result<std::vector<CudaKernel>> choices = bindCuda(call, options_);
    if (!choices || choices->empty() || choices->front().actions.size() != 1)
      return false;
    const auto *launch = std::get_if<Launch>(&choices->front().actions.front());
    return launch && fitsTable(*launch) && append(s, joined_.accesses()[s], own, {*launch->loop, launch->arguments});
  }

  /// Joins a step that sums the distances of what is summed here.
  bool appendDistances(size_t s) {
    const KernelCall &call = calls_[s];
    const std::optional<ExpressionCode> code = code_ ? lying(call) : std::nullopt;
    const std::optional<SquaredDistances> distances = code ? squaredDistancesOf(*code) : std::nullopt;
    if (!distances || code->domain != code_->domain || code->results[0].view != code_->results[0].view)
      return false;
    const TensorView &x = call.inputs[distances->x], &centre = call.inputs[distances->centre], &to = call.outputs[0];
    const std::optional<size_t> sum = sumOf(x);
    if (!sum || changes(joined_.accesses()[s].reads[distances->x], s))
      return false;
    StepAccess access = joined_.accesses()[s];
    access.reads = {access.reads[distances->centre]};
    const bool first = !squares_.contains(*sum);
    const size_t squares = first ? code_->results.size() : squares_.at(*sum);
    if (squares >= kMostSums)
      return false;
    const int64_t n = elementCount(code->domain) / points_;
    if (!append(s, access, {touch(centre, true, false), touch(to, true, true)},
                {distancesFromSums(*code, *distances, n, *sum, squares), {at(centre.data), at(to.data)}}))
      return false;
    if (first) {
      addSquares(*code_, *sum);
      squares_[*sum] = squares;
    }
    return true;
  }

  /// The result that is the sum of these numbers.
  std::optional<size_t> sumOf(const TensorView &x) const {
    const KernelCall &call = calls_[sums_.set.steps.front()];
    for (size_t r = 0; r < call.outputs.size(); ++r)
      for (size_t i = 0; i < call.inputs.size(); ++i)
        if (call.inputs[i].data == x.data && call.inputs[i].dtype == x.dtype && call.inputs[i].layout == x.layout &&
            isWhole(*code_, code_->results[r].value, i))
          return r;
    return std::nullopt;
  }
  /// Whether a step between the sums and step `s` writes there.
  bool changes(const ByteRange &range, size_t s) const {
    for (size_t between = sums_.set.steps.front() + 1; between < s; ++between)
      if (meet(joined_.accesses()[between].writes, {range}))
        return true;
    return false;
  }

  bool append(size_t s, const StepAccess &access, const std::vector<Touch> &own, Appended loop) {
    for (const Touch &a : own)
      for (const Touch &b : touches_)
        if (collide(a, b))
          return false;
    StepSet set = sums_.set;
    set.steps.push_back(s);
    set.accesses.push_back(access);
    if (!joined_.place(set))
      return false;
    sums_.set = std::move(set);
    touches_.insert(touches_.end(), own.begin(), own.end());
    loops_.push_back(std::move(loop));
    return true;
  }

  /// Writes the kernel with all that has been appended.
  void write() {
    if (!squares_.empty())
      sums_.kernel = bindExpression(*code_, calls_[sums_.set.steps.front()]);
    auto &last = std::get<Launch>(sums_.kernel.actions.back());
    SumEnd end = *last.end;
    for (Appended &loop : loops_) {
      end.loops.push_back(std::move(loop.loop));
      last.arguments.insert(last.arguments.end(), loop.arguments.begin(), loop.arguments.end());
    }
    last.source = end.source();
    last.end = std::make_shared<const SumEnd>(std::move(end));
    sums_.kernel.description += ", with loops over the results";
  }

  JoinedKernel &sums_;
  const plan::Program &program_;
  const std::vector<KernelCall> &calls_;
  const BufferUses &uses_;
  const JoinedProgram &joined_;
  const BindOptions &options_;
  int64_t points_ = 0;
  std::vector<Touch> touches_;
  std::vector<Appended> loops_;
  std::optional<ExpressionCode> code_; // of sums that squares may be added to
  std::map<size_t, size_t> squares_;   // by the number of the sum: that of the sum of squares
};

} // namespace

void addSumLoops(JoinedKernel &sums, const plan::Program &program, const std::vector<KernelCall> &calls,
                 const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options) {
  SumLoops(sums, program, calls, uses, joined, options).add();
}

std::optional<JoinedKernel> sumsFrom(const plan::Program &program, const std::vector<KernelCall> &calls, size_t first,
                                     const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options) {
  if (!calls[first].kernel || !isExpressionKernel(calls[first].name()))
    return std::nullopt;
  Result<std::vector<CudaKernel>> choices = bindCuda(calls[first], options);
  if (!choices || choices->empty())
    return std::nullopt;
  JoinedKernel sums{{{first}, {joined.accesses()[first]}}, std::move(choices->front())};
  addSumLoops(sums, program, calls, uses, joined, options);
  if (sums.set.steps.size() == 1)
    return std::nullopt;
  return sums;
}

} // namespace tessera::rt::cuda
