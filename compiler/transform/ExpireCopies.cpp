//===- ExpireCopies.cpp - copies that need not live through the whole step -----------------------------===//
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
// Values are those that depend on parameters and states alone.
//
// An activation that both halves read in another sharding than it has is resharded once, too, and the copy lives
// between the halves of a micro-batch. Nobody could count it: it belongs to the group of none of the operators. So the
// backward half reads a view, and makes a copy of its own. What the forward half shows or widens on the way to a
// reader, the backward half shows and widens for itself:
//
//   %x = graph.mul ...                                       %x = graph.mul ...
//   %v = graph.reshape %x                                    %v = graph.reshape %x
//   %y = graph.matmul %v, %w                           ->    %y = graph.matmul %v, %w
//   ...                                                      %b = graph.reshape %x {graph.anew = 1 : i64}
//   ...                                                      %u = graph.reshape %b
//   %dw = graph.matmul %v, %dy                               %dw = graph.matmul %u, %dy
//
// Values that are small together stay as they are.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Fusion.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <utility>

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
  explicit Expiry(func::FuncOp func) : func_(func), flow_(func), looped_(flow_.flow, formLoops(flow_.flow)) {
    for (auto [i, op] : llvm::enumerate(flow_.operators))
      position_[op] = int(i);
    findFixed();
  }

  void run(bool activations) {
    const std::vector<Candidate> parameters = largeOf(candidates());
    const std::vector<Candidate> held = activations ? largeOf(heldActivations()) : std::vector<Candidate>();
    for (const Candidate &candidate : parameters)
      expire(candidate);
    for (const Candidate &candidate : held)
      readAnew(candidate);
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

  // ---- activations ----

  /// Whether the operator belongs to the backward half or stands behind it. It may be in a loop of the forward half, but
  /// what is in a loop changes with what stands in between.
  bool isLater(Operation *op) const { return position_.contains(op) && !forward_.contains(op); }
  /// Whether the forward half has no kernel for the operator, which only shows or widens what it reads.
  bool shows(Operation *op) const {
    return forward_.contains(op) && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
           (isView(op) || looped_.stepOf[size_t(position_.lookup(op))] < 0);
  }
  bool isMadeOfNothing(Operation *op) const {
    return llvm::all_of(op->getOperandTypes(),
                        [](Type type) { return cast<RankedTensorType>(type).getNumElements() == 1; });
  }

  /// What both halves read, of the forward half of a micro-batch.
  std::vector<Candidate> heldActivations() const {
    std::vector<Candidate> list;
    for (auto [id, v] : llvm::enumerate(flow_.tensors)) {
      if (!v || fixed_.contains(v))
        continue;
      Operation *maker = v.getDefiningOp();
      if (maker ? !forward_.contains(maker) || shows(maker) || isMadeOfNothing(maker) || !looped_.inMemory[id] ||
                      (flow_.parts > 1 && sectionOf(maker) != Section::Body)
                : flow_.parts > 1 || argRole(func_, cast<BlockArgument>(v).getArgNumber()) != kInput)
        continue;
      Candidate candidate{v, {}, {}};
      addReaders(v, candidate);
      if (!candidate.forward.empty() && !candidate.backward.empty())
        list.push_back(std::move(candidate));
    }
    return list;
  }

  /// Who reads the value or what it shows. An operator that shows it for the backward half alone runs as early as the
  /// forward half does.
  void addReaders(Value v, Candidate &candidate) const {
    for (OpOperand &use : v.getUses()) {
      Operation *op = use.getOwner();
      if (!position_.contains(op))
        continue;
      if (shows(op))
        addReaders(op->getResult(0), candidate);
      (isLater(op) ? candidate.backward : candidate.forward).push_back(&use);
    }
  }

  /// Gives the readers of the backward half a view of their own.
  void readAnew(Candidate candidate) {
    llvm::sort(candidate.backward, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() == b->getOwner() ? a->getOperandNumber() < b->getOperandNumber()
                                            : a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    OpBuilder builder(candidate.backward.front()->getOwner());
    DenseMap<Value, Value> shown; // looked up only
    Value view = show(builder, builder.getInsertionPoint()->getLoc(), candidate.value, kBackwardPrefix);
    view.getDefiningOp()->setAttr(kAnewAttr, builder.getI64IntegerAttr(flow_.parts));
    shown[candidate.value] = view;
    SmallVector<Operation *> shows;
    for (OpOperand *use : candidate.backward) {
      SmallVector<Operation *> chain; // from the reader to the value
      for (Value v = use->get(); !shown.contains(v); v = v.getDefiningOp()->getOperand(0))
        chain.push_back(v.getDefiningOp());
      for (Operation *op : llvm::reverse(chain)) {
        Operation *copy = builder.clone(*op);
        copy->setOperand(0, shown.lookup(op->getOperand(0)));
        copy->setAttr(kNameAttr, builder.getStringAttr(kBackwardPrefix.str() + nameOf(op)));
        copy->setAttr(kGradOfAttr, builder.getStringAttr(nameOf(op)));
        shown[op->getResult(0)] = copy->getResult(0);
      }
      llvm::append_range(shows, chain);
      use->set(shown.lookup(use->get()));
    }
    for (bool erased = true; std::exchange(erased, false);)
      llvm::erase_if(shows, [&](Operation *op) {
        if (!op->use_empty())
          return false;
        op->erase();
        return erased = true;
      });
  }

  // ---- both ----

  static Operation *earliest(ArrayRef<OpOperand *> uses) {
    Operation *first = uses.front()->getOwner();
    for (OpOperand *use : uses)
      if (use->getOwner()->isBeforeInBlock(first))
        first = use->getOwner();
    return first;
  }

  /// The candidates without the smallest ones.
  static std::vector<Candidate> largeOf(std::vector<Candidate> list) {
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
    SmallVector<OpOperand *> all = candidate.forward;
    llvm::append_range(all, candidate.backward);
    Operation *first = earliest(all);
    OpBuilder builder(first);
    Value kept = show(builder, first->getLoc(), candidate.value, kKeptPrefix);
    kept.getDefiningOp()->setAttr(kKeepsCopyAttr, builder.getUnitAttr());
    for (bool backward : {false, true}) {
      const auto &uses = backward ? candidate.backward : candidate.forward;
      if (uses.empty())
        continue;
      Value shown = kept;
      if (backward || flow_.parts > 1) {
        Operation *before = earliest(uses);
        builder.setInsertionPoint(before);
        shown =
            show(builder, before->getLoc(), kept, backward ? StringRef(kBackwardPrefix) : "forward/", candidate.value);
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
  const LoopedFlow looped_;
  DenseMap<Operation *, int> position_; // in flow_; looked up only
  DenseSet<Value> fixed_;               // looked up only
  DenseSet<Operation *> forward_;       // looked up only
};

struct ExpireCopies : impl::ExpireCopiesPassBase<ExpireCopies> {
  using Base::Base;

  void runOnOperation() override {
    bool backward = false;
    getOperation().walk([&](Operation *op) { backward |= op->hasAttr(kGradOfAttr); });
    if (backward)
      Expiry(getOperation()).run(activations);
  }
};

} // namespace

} // namespace tessera::compiler
