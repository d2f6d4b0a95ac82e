//===- Recompute.cpp - recomputes activations instead of keeping them ------------------------------===//
//
// The backward half of a training program reads values of the forward half, which occupy memory in between. This pass
// recomputes some of them from other values right before they are needed (docs/adr/0009-recomputation.md).
//
//   %a = relu %x                 %a = relu %x
//   %y = matmul %a, %w           %y = matmul %a, %w          %a can go here
//   ...                    ->    ...
//                                %b = relu %x                again/...
//   %dw = matmul %a, %dy         %dw = matmul %b, %dy
//
// "cheap": results of elementwise operators are recomputed if the operands are kept anyway, or are smaller.
// "full":  the forward half is cut into segments at places that few bytes cross. The values that cross a cut are kept,
//          and each segment but the last runs again before its gradients (Chen et al., "Training deep nets with
//          sublinear memory cost", 2016). SegmentCuts.h says which cuts. The option `segments` selects the segments
//          that run again. A segment cannot be divided between the stages of a pipeline: `stages` asks for a multiple
//          of so many segments, so that even stages are possible. Segments also end where stages do that the model
//          file gives.
//
// The copies are the same operators on the same operands. Random numbers are a hash of their index, so masks are equal.
// Small values (statistics) are kept, so that no sum over ranks runs twice.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"
#include "compiler/transform/SegmentCuts.h"
#include "dialects/dist/DistInterfaces.h"
#include "dialects/graph/GivenStages.h"
#include "dialects/graph/OpWriter.h"
#include "dialects/graph/flow/DataFlow.h"

#include "dialects/graph/GraphKinds.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>
#include <limits>
#include <map>
#include <numeric>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_RECOMPUTEPASS
#include "compiler/transform/Passes.h.inc"

namespace {

/// A value is kept if it has less than 1 / kSmall of the bytes of a usual one.
constexpr int64_t kSmall = 32;
/// The most segments that are tried for the stages of a pipeline, if there are no more stages.
constexpr int kMaxSegments = 64;

int64_t bytesOf(Value v) {
  auto type = cast<RankedTensorType>(v.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

bool isCheap(Operation *op) { return isElementwise(op) || isView(op) || isStretch(op); }

class Recomputation {
public:
  explicit Recomputation(func::FuncOp func, int stages = 1) : stages_(stages), block_(func.getBody().front()) {
    const FunctionFlow flow(func);
    for (auto [i, op] : llvm::enumerate(flow.operators))
      if (flow.parts > 1 && flow.flow.steps[i].section == Section::Begin)
        shared_.insert(op);
    findUnread();
    markCasts();
    for (Operation &op : block_.without_terminator()) {
      bool backward = op.hasAttr(kGradOfAttr);
      for (Value v : op.getOperands())
        backward |= v.getDefiningOp() && !position_.contains(v.getDefiningOp());
      if (backward || unread_.contains(&op))
        continue;
      position_[&op] = int(forward_.size());
      forward_.push_back(&op);
    }
    small_ = usualBytes() / kSmall;
  }

  void cheap() {
    DenseSet<Value> kept;
    SmallVector<Value> candidates;
    for (Operation *op : forward_)
      for (Value v : op->getResults())
        if (readBackward(v)) {
          if (isCheap(op) && !isAtHand(v) && bytesOf(v) >= small_ && forwardReaders(v) < 2)
            candidates.push_back(v);
          else
            kept.insert(v);
        }
    const auto isKept = [&](Value v) { return isAtHand(v) || bytesOf(v) < small_ || kept.contains(v); };
    std::vector<std::pair<Value, DenseSet<Value>>> chosen; // with what they are computed from
    for (Value v : candidates) {
      DenseSet<Value> leaves = leavesOf(v, [&](Value u) { return isKept(u) || !isCheap(u.getDefiningOp()); });
      int64_t extra = 0;
      for (Value leaf : leaves)
        extra += isKept(leaf) ? 0 : bytesOf(leaf);
      if (extra < bytesOf(v)) {
        kept.insert(leaves.begin(), leaves.end());
        chosen.push_back({v, std::move(leaves)});
      } else {
        kept.insert(v);
      }
    }
    for (const auto &[v, leaves] : chosen)
      again({v}, [&, &leaves = leaves](Value u) { return leaves.contains(u); });
  }

  /// Recomputes the segments `which`, ascending; empty: all. Returns the number of segments.
  int full(ArrayRef<int64_t> which) {
    std::vector<Segment> segments = findSegments();
    for (auto [s, segment] : llvm::enumerate(segments))
      if (which.empty() || llvm::is_contained(which, int64_t(s)))
        again(segment.values, [&, &segment = segment](Value v) { return isKept(segment, v); });
    return int(segments.size());
  }

  std::vector<std::pair<int64_t, double>> segmentsByWorth(function_ref<double(Operation *)> cost) {
    std::vector<std::tuple<double, int64_t, double>> worth; // -bytes per cost; segment; cost
    for (auto [s, segment] : llvm::enumerate(findSegments())) {
      double bytes = 0, time = 0;
      for (Value v : segment.values)
        bytes += double(bytesOf(v));
      const DenseSet<Operation *> needed =
          neededFor(segment.values, [&, &segment = segment](Value v) { return isKept(segment, v); });
      for (Operation *op : forward_) // in program order, so that the floating-point sum is always the same
        if (needed.contains(op))
          time += cost(op);
      worth.push_back({-bytes / std::max(time, 1e-30), int64_t(s), time});
    }
    llvm::sort(worth); // of equal ones the earlier first: its copies run when later activations are freed already
    std::vector<std::pair<int64_t, double>> order;
    for (auto [value, s, time] : worth)
      order.push_back({s, time});
    return order;
  }

private:
  /// Gradients of what graph-repeat has replaced stay in the program, and would keep what they read.
  void findUnread() {
    for (Operation &op : llvm::reverse(block_.without_terminator()))
      if (llvm::all_of(op.getUsers(), [&](Operation *user) { return unread_.contains(user); }))
        unread_.insert(&op);
  }

  /// What stands among gradients and is read by them alone, as a cast of an activation that a lower precision needs,
  /// belongs to the first of them. As a part of the forward half it would keep what it reads until then.
  void markCasts() {
    bool among = false;
    for (Operation &op : block_.without_terminator()) {
      if (op.hasAttr(kGradOfAttr)) {
        among = true;
        continue;
      }
      const auto isGradient = [](Operation *user) { return user->hasAttr(kGradOfAttr); };
      if (among && !op.use_empty() && llvm::all_of(op.getUsers(), isGradient) &&
          llvm::all_of(op.getOperands(),
                       [](Value v) { return v.getDefiningOp() && !v.getDefiningOp()->hasAttr(kGradOfAttr); }))
        op.setAttr(kGradOfAttr, (*op.user_begin())->getAttr(kGradOfAttr));
    }
  }

  /// The operators of the forward half from one cut to the next, and their results that the backward half reads and
  /// that no later operator of the forward half does.
  struct Segment {
    int first, last;
    SmallVector<Value> values;
  };
  std::vector<Segment> findSegments() const {
    std::vector<Segment> segments;
    int first = 0;
    for (int last : endAtStages(chooseCuts())) {
      Segment segment{first, last, {}};
      for (int i = first; i < last; ++i)
        for (Value v : forward_[i]->getResults())
          if (!alwaysKept(v) && readBackward(v) && lastForwardReader(v) < last)
            segment.values.push_back(v);
      segments.push_back(std::move(segment));
      first = last;
    }
    return segments;
  }
  /// Whether the copies of a segment can read the value, because it is kept.
  bool isKept(const Segment &segment, Value v) const {
    return alwaysKept(v) || position_.lookup(v.getDefiningOp()) < segment.first || lastForwardReader(v) >= segment.last;
  }

  bool isForward(Operation *op) const { return position_.contains(op); }
  /// Whether the operator belongs to the backward half. The optimizer does not.
  bool isGradient(Operation *op) const { return op->hasAttr(kGradOfAttr) && !isForward(op) && !unread_.contains(op); }
  bool isAtHand(Value v) const {
    Operation *op = v.getDefiningOp();
    return !op || op->hasTrait<OpTrait::ConstantLike>() || shared_.contains(op);
  }
  /// Whether the value takes little memory, or is in memory anyway.
  bool alwaysKept(Value v) const { return isAtHand(v) || bytesOf(v) < small_; }
  /// Values of at least so many bytes have half of all the bytes that the backward half reads.
  int64_t usualBytes() const {
    std::vector<int64_t> bytes;
    for (Operation *op : forward_)
      for (Value v : op->getResults())
        if (!isAtHand(v) && readBackward(v))
          bytes.push_back(bytesOf(v));
    llvm::sort(bytes, std::greater<>());
    int64_t left = std::accumulate(bytes.begin(), bytes.end(), int64_t(0)) / 2;
    for (int64_t b : bytes) {
      left -= b;
      if (left <= 0)
        return b;
    }
    return 0;
  }
  bool readBackward(Value v) const {
    return llvm::any_of(v.getUsers(), [&](Operation *user) { return isGradient(user); });
  }
  int forwardReaders(Value v) const {
    return int(llvm::count_if(v.getUsers(), [&](Operation *user) { return isForward(user); }));
  }
  /// The position of the last forward operator that reads the value. If the value is a result of the program, the
  /// largest integer.
  int lastForwardReader(Value v) const {
    int last = -1;
    for (Operation *user : v.getUsers())
      if (user->hasTrait<OpTrait::IsTerminator>())
        last = std::numeric_limits<int>::max();
      else if (isForward(user))
        last = std::max(last, position_.lookup(user));
    return last;
  }

  /// What `v` follows from, as far back as `stops` allows. Of a value that operators outside read as well nothing is
  /// computed again: in a residual stream that would lead from layer to layer. But GELU reads its x twice, and alone.
  DenseSet<Value> leavesOf(Value v, function_ref<bool(Value)> stops) const {
    DenseSet<Operation *> inside;
    DenseSet<Value> leaves;
    std::map<int, Value, std::greater<>> work; // by position: all readers inside come before the value
    const auto add = [&](Operation *op) {
      inside.insert(op);
      for (Value operand : op->getOperands())
        if (stops(operand))
          leaves.insert(operand);
        else
          work.insert({position_.lookup(operand.getDefiningOp()), operand});
    };
    add(v.getDefiningOp());
    while (!work.empty()) {
      const Value next = work.begin()->second;
      work.erase(work.begin());
      if (llvm::all_of(next.getUsers(), [&](Operation *user) { return !isForward(user) || inside.contains(user); }))
        add(next.getDefiningOp());
      else
        leaves.insert(next);
    }
    return leaves;
  }

  /// Floating-point operations, for all micro-batches.
  double workOf(Operation *op) const {
    auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
    if (!ruled || shared_.contains(op))
      return 0;
    return ruled.getFlops(dist::operandShapes(op), dist::resultShapes(op));
  }

  /// The positions of the forward half before which a segment ends, ascending. The operators behind the last position
  /// run only once.
  std::vector<int> chooseCuts() const {
    size_t n = forward_.size();
    std::vector<int64_t> crossing(n + 1, 0), kept(n + 1, 0); // kept: backward reads it, up to here
    for (size_t i = 0; i < n; ++i) {
      kept[i + 1] = kept[i];
      for (Value v : forward_[i]->getResults()) {
        const int last = lastForwardReader(v);
        if (alwaysKept(v) || isView(forward_[i]) || last > int(n)) // results are in memory whatever is cut
          continue;
        if (readBackward(v))
          kept[i + 1] += bytesOf(v);
        for (int p = int(i) + 1; p <= last; ++p)
          crossing[p] += bytesOf(v);
      }
    }
    if (stages_ == 1)
      return cutForFewestBytes(kept, crossing);
    std::vector<double> work(n + 1, 0);
    for (size_t i = 0; i < n; ++i)
      work[i + 1] = work[i] + workOf(forward_[i]);
    std::vector<int> best;
    int64_t least = kept[n];
    for (int segments = stages_; segments <= std::max(kMaxSegments, stages_); segments += stages_) {
      // As many segments as stages are the stages. Of several for each stage the search for stages makes even ones.
      const std::vector<int> cuts =
          segments == stages_ ? cutEvenly(work, crossing, segments) : cutByBytes(kept, crossing, segments);
      if (cuts.empty())
        continue;
      int64_t total = 0, largest = kept[n] - kept[size_t(cuts.back())];
      for (size_t c = 0; c < cuts.size(); ++c) {
        largest = std::max(largest, kept[size_t(cuts[c])] - (c == 0 ? 0 : kept[size_t(cuts[c - 1])]));
        total += crossing[size_t(cuts[c])];
      }
      if (total + largest < least) {
        least = total + largest;
        best = cuts;
      }
    }
    return best;
  }

  /// The cuts, and those between stages that the model file gives, each of which has memory of its own. So a stage
  /// computes again what is its own, also where no other cut gains.
  std::vector<int> endAtStages(std::vector<int> cuts) const {
    int64_t stage = -1;
    for (int p = 0; p < int(forward_.size()); ++p)
      if (const std::optional<int64_t> given = stageIn(forward_[size_t(p)], kGivenStageAttr); given && *given > stage) {
        if (stage >= 0)
          cuts.insert(llvm::lower_bound(cuts, p), p);
        stage = *given;
      }
    cuts.erase(llvm::unique(cuts), cuts.end());
    return cuts;
  }

  DenseSet<Operation *> neededFor(ArrayRef<Value> values, function_ref<bool(Value)> stops) const {
    DenseSet<Operation *> needed;
    SmallVector<Value> work(values);
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      if (!needed.insert(op).second)
        continue;
      for (Value operand : op->getOperands())
        if (!stops(operand))
          work.push_back(operand);
    }
    return needed;
  }

  /// Recomputes the values before the first backward operator that reads one of them. The copies start from the values
  /// for which `stops` is true.
  void again(ArrayRef<Value> values, function_ref<bool(Value)> stops) {
    Operation *before = nullptr;
    for (Value v : values)
      for (Operation *user : v.getUsers())
        if (isGradient(user) && (!before || user->isBeforeInBlock(before)))
          before = user;
    if (!before)
      return;
    const DenseSet<Operation *> needed = neededFor(values, stops);
    OpBuilder builder(before);
    IRMapping mapping;
    DenseSet<Operation *> made;
    for (Operation *op : forward_) {
      if (!needed.contains(op))
        continue;
      Operation *copy = builder.clone(*op, mapping);
      made.insert(copy);
      copy->setAttr(kNameAttr, builder.getStringAttr("again/" + nameOf(op)));
      copy->setAttr(kGradOfAttr, builder.getStringAttr(nameOf(op)));
      copy->setAttr(kAgainAttr, builder.getUnitAttr());
    }
    for (Value v : values)
      v.replaceUsesWithIf(mapping.lookup(v),
                          [&](OpOperand &use) { return isGradient(use.getOwner()) && !made.contains(use.getOwner()); });
  }

  const int stages_; // that segments must not lie across
  Block &block_;
  std::vector<Operation *> forward_;
  DenseMap<Operation *, int> position_; // in forward_; looked up only
  DenseSet<Operation *> shared_;        // by all micro-batches: computed once and kept for them; looked up only
  DenseSet<Operation *> unread_;        // by anything that is read; looked up only
  int64_t small_ = 0;                   // values of fewer bytes are kept
};

/// Of attention that runs twice, one run makes the statistics that the gradient reads. The other need not write them.
void dropUnreadStatistics(func::FuncOp func) {
  for (AttentionOp op : llvm::make_early_inc_range(func.getBody().getOps<AttentionOp>())) {
    if (!op.getKeepsStatistics() || !op.getStatistics().use_empty())
      continue;
    OpBuilder builder(op);
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.erase(op.getKeepsStatisticsAttrName());
    auto made = AttentionOp::create(builder, op.getLoc(), op->getOperands(), attributes.getAttrs());
    op.getY().replaceAllUsesWith(made.getY());
    op.erase();
  }
}

struct Recompute : impl::RecomputePassBase<Recompute> {
  using Base::Base;

  void runOnOperation() override {
    if (getOperation().isExternal() || level == "none")
      return;
    again();
    dropUnreadStatistics(getOperation());
  }

private:
  void again() {
    if (level == "cheap") {
      Recomputation(getOperation()).cheap();
    } else if (level == "full") {
      const SmallVector<int64_t> which(segments.begin(), segments.end());
      const int count = Recomputation(getOperation(), int(stages)).full(which);
      bool backward = false;
      getOperation().walk([&](Operation *op) { backward |= op->hasAttr(kGradOfAttr); });
      for (int64_t s : which)
        if (backward && (s < 0 || s >= count)) {
          getOperation().emitError("graph-recompute: there is no segment ")
              << s << "; the forward half has " << count << " that can run again";
          return signalPassFailure();
        }
      Recomputation(getOperation()).cheap(); // in the others and behind the last
    } else {
      getOperation().emitError("graph-recompute: the level is none, cheap or full, not ") << level;
      signalPassFailure();
    }
  }
};

} // namespace

std::vector<std::pair<int64_t, double>> segmentsByWorth(func::FuncOp func, int64_t stages,
                                                        function_ref<double(Operation *)> cost) {
  return Recomputation(func, int(stages)).segmentsByWorth(cost);
}

} // namespace tessera::compiler
