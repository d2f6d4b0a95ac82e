//===- SliceEarly.cpp - leaves of what is computed element by element -----------------------------===//
//
// A sum with leaves reads slices of its operand (Localize.cpp). If nothing else reads the operand, and an elementwise
// operator makes it, the operator is made for each slice. Fusion then joins it with the sums, and the operand is never
// in memory. The same goes for a sum of columns, whose operand is reshaped (graph::reduceParts):
//
//   p = mul x, y; p0 = slice p; p1 = slice p   ->   p0 = mul (slice x), (slice y); p1 = mul (slice x), (slice y)
//   p = mul x, y; q = reshape p                ->   q = mul (reshape x), (reshape y)
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/ShardingRule.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/InPlace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_SLICEEARLYPASS
#include "compiler/partition/Passes.h.inc"

namespace {

constexpr StringLiteral kValueAttr = "value"; // of operators that are ConstantLike

/// What a view in place (graph::kInPlaceAttr) shows of a tensor and of what is broadcast to it: a box, or all of it
/// with one dimension in two.
class Lens {
public:
  explicit Lens(Operation *view) : view_(view), slice_(dyn_cast<graph::SliceOp>(view)) {
    const ArrayRef<int64_t> whole = shapeOf(view->getOperand(0)), parts = shapeOf(view->getResult(0));
    while (!slice_ && split_ + 1 < whole.size() && whole[split_] == parts[split_])
      ++split_;
    rank_ = whole.size();
    count_ = slice_ ? 1 : parts[split_];
  }

  static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
  Operation *view() const { return view_; }

  /// The shape that is seen of a value that is broadcast to the tensor.
  SmallVector<int64_t> seen(Value value) const {
    SmallVector<int64_t> shape(shapeOf(value));
    const size_t lead = rank_ - shape.size();
    if (slice_) {
      for (auto [d, size] : enumerate(shape))
        if (size != 1)
          size = limit(lead + d) - start(lead + d);
    } else if (split_ >= lead) {
      int64_t *at = shape.begin() + (split_ - lead);
      const int64_t outer = *at == 1 ? 1 : count_;
      *at /= outer;
      shape.insert(at, outer);
    }
    return shape;
  }

  /// A view of the value in place.
  Operation *look(OpBuilder &builder, Value value) const {
    Operation *made;
    if (slice_) {
      SmallVector<int64_t> starts, limits;
      const size_t lead = rank_ - shapeOf(value).size();
      for (auto [d, size] : enumerate(shapeOf(value))) {
        starts.push_back(size == 1 ? 0 : start(lead + d));
        limits.push_back(size == 1 ? 1 : limit(lead + d));
      }
      made = graph::SliceOp::create(builder, view_->getLoc(), value, starts, limits, dist::Shape(starts.size(), 1));
    } else {
      made = graph::ReshapeOp::create(builder, view_->getLoc(), typeOf(value), value);
    }
    made->setDiscardableAttrs(view_->getDiscardableAttrDictionary());
    return made;
  }
  RankedTensorType typeOf(Value value) const {
    return RankedTensorType::get(seen(value), cast<RankedTensorType>(value.getType()).getElementType());
  }

private:
  int64_t start(size_t d) const { return graph::SliceOp(slice_).getStarts()[d]; }
  int64_t limit(size_t d) const { return graph::SliceOp(slice_).getLimits()[d]; }

  Operation *view_;
  graph::SliceOp slice_; // null: a dimension in two
  size_t split_ = 0, rank_;
  int64_t count_;
};

class Slicer {
public:
  explicit Slicer(func::FuncOp func) : func_(func), builder_(func.getContext()) {}

  void run() {
    for (Operation &op : make_early_inc_range(func_.getBody().front()))
      if (op.hasAttr(graph::kInPlaceAttr))
        share(&op);
    SmallVector<Operation *> ops;
    for (Operation &op : func_.getBody().front().without_terminator())
      ops.push_back(&op);
    // Last first, since the operands of an operator may get views.
    for (Operation *op : reverse(ops))
      if (mayBeSliced(op))
        sliceOperands(op);
    for (Operation &op : make_early_inc_range(reverse(func_.getBody().front())))
      if (graph::isStretch(&op) && isOpTriviallyDead(&op)) // of the whole
        op.erase();
  }

private:
  /// A view is found by its operand, type and attributes.
  using Key = std::tuple<const void *, const void *, const void *>;

  static Key keyOf(Operation *view) {
    NamedAttrList attributes(view->getAttrDictionary());
    attributes.erase(graph::kNameAttr);
    return {view->getOperand(0).getAsOpaquePointer(), view->getResult(0).getType().getAsOpaquePointer(),
            attributes.getDictionary(view->getContext()).getAsOpaquePointer()};
  }

  /// Lets readers find a view, behind its operand; the first of equal ones.
  Value share(Operation *view) {
    auto [known, fresh] = views_.try_emplace(keyOf(view), view->getResult(0));
    if (!fresh) {
      view->replaceAllUsesWith(ValueRange(known->second));
      view->erase();
      return known->second;
    }
    if (Operation *maker = view->getOperand(0).getDefiningOp())
      view->moveAfter(maker);
    else
      view->moveBefore(&func_.getBody().front(), func_.getBody().front().begin());
    return known->second;
  }

  static bool mayBeSliced(Operation *op) {
    if (!graph::isElementwise(op) || op->getNumResults() != 1 || op->use_empty() || graph::microBatches(op))
      return false;
    // An operator without such an operand makes elements by their place (random numbers, indices).
    const bool reads = any_of(op->getOperands(),
                              [&](Value operand) { return Lens::shapeOf(operand) == Lens::shapeOf(op->getResult(0)); });
    return reads && all_of(op->getUsers(), [](Operation *user) { return user->hasAttr(graph::kInPlaceAttr); });
  }

  /// Replaces every view of the operator's result by the operator on views of its operands.
  void sliceOperands(Operation *op) {
    builder_.setInsertionPoint(op);
    for (Operation *user : make_early_inc_range(op->getUsers())) {
      const Lens lens(user);
      SmallVector<Value> operands;
      for (Value operand : op->getOperands())
        operands.push_back(partOf(operand, lens));
      Operation *part = builder_.clone(*op);
      part->setOperands(operands);
      part->getResult(0).setType(cast<RankedTensorType>(user->getResult(0).getType()));
      user->replaceAllUsesWith(part);
      user->erase();
    }
    // Another value may get the address of this one.
    std::erase_if(views_,
                  [&](const auto &entry) { return std::get<0>(entry.first) == op->getResult(0).getAsOpaquePointer(); });
    op->erase();
  }

  /// What the lens needs of a value that is broadcast to its tensor.
  Value partOf(Value value, const Lens &lens) {
    const RankedTensorType type = lens.typeOf(value);
    if (type == value.getType())
      return value;
    Operation *maker = value.getDefiningOp();
    if (maker && maker->hasTrait<OpTrait::ConstantLike>())
      if (auto splat = maker->getAttrOfType<SplatElementsAttr>(kValueAttr)) {
        Operation *constant = builder_.clone(*maker);
        constant->setAttr(kValueAttr, splat.resizeSplat(type));
        constant->getResult(0).setType(type);
        return constant->getResult(0);
      }
    if (maker && graph::isStretch(maker)) {
      const Value operand = partOf(maker->getOperand(0), lens);
      Operation *stretch = builder_.clone(*maker);
      stretch->setOperand(0, operand);
      stretch->getResult(0).setType(type);
      return stretch->getResult(0);
    }
    return share(lens.look(builder_, value));
  }

  func::FuncOp func_;
  OpBuilder builder_;
  std::map<Key, Value> views_; // looked up only
};

struct SliceEarlyPass : impl::SliceEarlyPassBase<SliceEarlyPass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      Slicer(func).run();
  }
};

} // namespace

} // namespace tessera::compiler
