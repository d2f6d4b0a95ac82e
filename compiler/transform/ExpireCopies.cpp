//===- ExpireCopies.cpp - copies of parameters that need not live through the whole step ---------------===//
//
// A parameter that is cut more finely than its readers want is gathered once. The copy lives from the first forward
// reader to the last backward one, and with several micro-batches through all of them. The pass leaves both open:
//
//   %k = graph.reshape %w {graph.keeps_copy}        a strategy may gather the copy here, for all readers
//   %f = graph.reshape %k {graph.anew = 4 : i64}    read by the forward half
//   %b = graph.reshape %k {graph.anew = 4 : i64}    read by the backward half
//
// If %k is cut as %w is, nothing is kept: what the readers of %f want is gathered for each micro-batch and ends with
// them, and what those of %b want is gathered again. All three are views. With one micro-batch the forward half reads
// %k.
//
// Values are those that depend on parameters and states alone. Values that are small together stay as they are.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/graph/DataFlow.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_EXPIRECOPIESPASS
#include "compiler/transform/Passes.h.inc"

namespace {

/// The smallest values that together have less than 1 / kSmall of all bytes stay as they are.
constexpr int64_t kSmall = 32;

int64_t bytesOf(Value v) {
  auto type = cast<RankedTensorType>(v.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

class Expiry {
public:
  explicit Expiry(func::FuncOp func) : func_(func), flow_(func) {
    for (auto [i, op] : llvm::enumerate(flow_.operators))
      position_[op] = int(i);
    findFixed();
  }

  void run() {
    for (const Candidate &candidate : chosen())
      expire(candidate);
  }

private:
  struct Candidate {
    Value value;
    SmallVector<OpOperand *> forward, backward;
  };

  bool isGradient(Operation *op) const { return op->hasAttr(kGradOfAttr); }

  /// Finds what depends on parameters and states alone, and which operators are neither in the backward half nor behind
  /// it.
  void findFixed() {
    Block &block = func_.getBody().front();
    for (BlockArgument arg : block.getArguments()) {
      const StringRef role = argRole(func_, arg.getArgNumber());
      if ((role == kParameter || role == kState) && !flow_.flow.variesInBody(flow_.index.lookup(arg)))
        fixed_.insert(arg);
    }
    for (Operation &op : block.without_terminator()) {
      auto makes = [&](Value v) { return v.getDefiningOp(); };
      bool forward = !isGradient(&op);
      for (Value v : op.getOperands())
        forward &= !makes(v) || forward_.contains(makes(v));
      if (forward)
        forward_.insert(&op);
      const bool any = llvm::any_of(op.getOperands(), [&](Value v) { return fixed_.contains(v); });
      const bool all = llvm::all_of(op.getOperands(), [&](Value v) {
        return fixed_.contains(v) || (makes(v) && makes(v)->hasTrait<OpTrait::ConstantLike>());
      });
      if (any && all && op.getNumResults() == 1 && sectionOf(&op) == Section::Begin)
        fixed_.insert(op.getResult(0));
    }
  }

  Section sectionOf(Operation *op) const { return flow_.flow.steps[size_t(position_.lookup(op))].section; }

  std::vector<Candidate> candidates() const {
    std::vector<Candidate> list;
    for (Value v : flow_.tensors) {
      if (!fixed_.contains(v))
        continue;
      Candidate candidate{v, {}, {}};
      for (OpOperand &use : v.getUses()) {
        Operation *op = use.getOwner();
        if (!position_.contains(op) || (flow_.parts > 1 && sectionOf(op) != Section::Body) ||
            (op->getNumResults() == 1 && fixed_.contains(op->getResult(0))))
          continue;
        if (forward_.contains(op))
          candidate.forward.push_back(&use);
        else if (isGradient(op))
          candidate.backward.push_back(&use);
      }
      // Within one micro-batch, only what both halves read is held between them.
      if (flow_.parts > 1 ? !candidate.forward.empty() || !candidate.backward.empty()
                          : !candidate.forward.empty() && !candidate.backward.empty())
        list.push_back(std::move(candidate));
    }
    return list;
  }

  /// The candidates without the smallest ones.
  std::vector<Candidate> chosen() const {
    std::vector<Candidate> list = candidates();
    std::vector<int64_t> sizes;
    int64_t all = 0;
    for (const Candidate &candidate : list) {
      sizes.push_back(bytesOf(candidate.value));
      all += sizes.back();
    }
    llvm::sort(sizes);
    int64_t least = 0, small = 0; // bytes of the smallest that is taken, and of all before it
    for (int64_t bytes : sizes) {
      least = bytes;
      small += bytes;
      if (small * kSmall >= all)
        break;
    }
    llvm::erase_if(list, [&](const Candidate &candidate) { return bytesOf(candidate.value) < least; });
    return list;
  }

  void expire(const Candidate &candidate) {
    Operation *first = nullptr;
    for (const auto *uses : {&candidate.forward, &candidate.backward})
      for (OpOperand *use : *uses)
        if (!first || use->getOwner()->isBeforeInBlock(first))
          first = use->getOwner();
    OpBuilder builder(first);
    Value kept = show(builder, first->getLoc(), candidate.value, kKeptPrefix);
    kept.getDefiningOp()->setAttr(kKeepsCopyAttr, builder.getUnitAttr());
    for (bool backward : {false, true}) {
      const auto &uses = backward ? candidate.backward : candidate.forward;
      if (uses.empty())
        continue;
      Value shown = kept;
      if (backward || flow_.parts > 1) {
        Operation *before = uses.front()->getOwner();
        for (OpOperand *use : uses)
          if (use->getOwner()->isBeforeInBlock(before))
            before = use->getOwner();
        builder.setInsertionPoint(before);
        shown = show(builder, before->getLoc(), kept, backward ? "backward/" : "forward/", candidate.value);
        shown.getDefiningOp()->setAttr(kAnewAttr, builder.getI64IntegerAttr(flow_.parts));
      }
      for (OpOperand *use : uses)
        use->set(shown);
    }
  }

  /// The value as a view, called `prefix` and the name of `named`.
  Value show(OpBuilder &builder, Location loc, Value value, StringRef prefix, Value named = {}) const {
    named = named ? named : value;
    auto arg = dyn_cast<BlockArgument>(named);
    const std::string name = arg ? argName(func_, arg.getArgNumber()).str() : nameOf(named.getDefiningOp());
    auto view = ReshapeOp::create(builder, loc, value.getType(), value);
    view->setAttr(kNameAttr, builder.getStringAttr(prefix.str() + name));
    return view.getY();
  }

  func::FuncOp func_;
  const FunctionFlow flow_;
  DenseMap<Operation *, int> position_; // in flow_; looked up only
  DenseSet<Value> fixed_;               // looked up only
  DenseSet<Operation *> forward_;       // looked up only
};

struct ExpireCopies : impl::ExpireCopiesPassBase<ExpireCopies> {
  void runOnOperation() override {
    bool backward = false;
    getOperation().walk([&](Operation *op) { backward |= op->hasAttr(kGradOfAttr); });
    if (backward)
      Expiry(getOperation()).run();
  }
};

} // namespace

} // namespace tessera::compiler
