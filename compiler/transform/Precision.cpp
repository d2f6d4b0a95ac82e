//===- Precision.cpp - 16-bit arithmetic where it pays -------------------------------------------===//
//
// Mixed precision on a whole program, after the gradients are there (docs/adr/0008-mixed-precision.md): products
// take 16-bit operands and sum in float32; what lies between products, and loses little, is computed and kept in
// 16 bits; everything else stays in float32: statistics, losses, gradients of parameters, the optimizer,
// parameters themselves. What kind an operator is of it says itself (graph::precisionOf).
//
//   %h = matmul %x, %w          %xl = cast %x; %wl = cast %w; %h = matmul %xl, %wl {wide}      float32
//   %r = relu %h          ->    %hl = cast %h; %r = relu %hl                                   16 bits
//   %y = matmul %r, %v          %vl = cast %v; %y = matmul %r, %vl {wide}                      float32
//   %s = reduce_sum %y          %s = reduce_sum %y                                             float32
//
// Two sweeps decide. Forward: a value is *narrow* if it is a product's result, or if an operator that follows its
// operands makes it from narrow values (parameters and constants go along). Backward: such an operator does run
// in 16 bits if something that wants 16 bits reads what it makes. So the sums that products hand to optimizer and
// loss are never rounded, and an addition of gradients, which nothing but the optimizer reads, is in float32.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"
#include "dialects/graph/OpWriter.h"

#include "dialects/graph/GraphKinds.h"

#include "mlir/Pass/Pass.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_LOWERPRECISIONPASS
#include "compiler/transform/Passes.h.inc"

namespace {

class PrecisionLowering {
public:
  PrecisionLowering(func::FuncOp func, FloatType narrow) : func_(func), narrow_(narrow), writer_(func) {}

  void run() {
    for (Operation &op : func_.getBody().front().without_terminator())
      ops_.push_back(&op);
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      if (argRole(func_, i) == kParameter)
        goesAlong_.insert(func_.getArgument(i));
    for (Operation *op : ops_)
      findNarrow(op);
    for (Operation *op : llvm::reverse(ops_))
      findWanted(op);
    for (Operation *op : ops_)
      rewrite(op);
    for (OpOperand &result : func_.getBody().front().getTerminator()->getOpOperands())
      if (lowered_.contains(result.get()))
        result.set(wideForm(result.get(), result.getOwner()));
  }

private:
  static bool isSingle(Value v) { return elementTypeOf(v).isF32(); }
  bool followsNarrow(Operation *op) const {
    bool any = false;
    for (Value v : op->getOperands()) {
      if (!isFloat(v))
        continue;
      if (!narrowValues_.contains(v) && !goesAlong_.contains(v))
        return false;
      any |= narrowValues_.contains(v);
    }
    return any;
  }
  /// Operands and results of the size of the first result: those that normalisation keeps in 16 bits.
  static bool isData(Operation *op, Value v) { return v.getType() == op->getResult(0).getType(); }

  void findNarrow(Operation *op) {
    if (op->hasTrait<OpTrait::ConstantLike>()) {
      if (isSingle(op->getResult(0)))
        goesAlong_.insert(op->getResult(0));
      return;
    }
    switch (precisionOf(op)) {
    case Precision::Wide:
      return;
    case Precision::Products:
      if (isSingle(op->getResult(0)))
        narrowValues_.insert(op->getResult(0));
      return;
    case Precision::Normalizes:
      for (Value v : op->getOperands())
        if (isSingle(v) && isData(op, v) && narrowValues_.contains(v))
          narrowValues_.insert(op->getResult(0));
      return;
    case Precision::Follows:
      break;
    }
    bool allAlong = llvm::all_of(op->getOperands(), [&](Value v) { return goesAlong_.contains(v); });
    for (Value result : op->getResults())
      if (isSingle(result)) {
        if (followsNarrow(op))
          narrowValues_.insert(result);
        else if (allAlong)
          goesAlong_.insert(result);
      }
  }

  bool runsNarrow(Operation *op) const {
    if (precisionOf(op) != Precision::Follows)
      return false;
    // A comparison reads what is there: 16 bits if something else wanted them.
    if (!isFloat(op->getResult(0)))
      return followsNarrow(op) && llvm::all_of(op->getOperands(), [&](Value v) {
               return !isFloat(v) || goesAlong_.contains(v) || wanted_.contains(v);
             });
    Value result = op->getResult(0);
    return narrowValues_.contains(result) && wanted_.contains(result);
  }

  void findWanted(Operation *op) {
    Precision kind = precisionOf(op);
    if (kind == Precision::Normalizes && narrowValues_.contains(op->getResult(0))) {
      for (Value v : op->getOperands())
        if (isData(op, v) && narrowValues_.contains(v))
          wanted_.insert(v);
    } else if (kind == Precision::Products || (isFloat(op->getResult(0)) && runsNarrow(op))) {
      for (Value v : op->getOperands())
        if (isFloat(v))
          wanted_.insert(v);
    }
  }

  /// The value in 16 bits; for a reader `op`.
  Value narrowForm(Value v, Operation *op) {
    if (!isSingle(v))
      return v; // integers, and what is lowered already
    Value &form = narrowForms_[v];
    if (form)
      return form;
    if (std::optional<double> splat = splatOf(v)) {
      moveBehind(v, op);
      return form = writer_.constant(RankedTensorType::get(shapeOf(v), narrow_), *splat);
    }
    moveBehind(v, op);
    setName(v, op);
    return form = writer_.cast(v, narrow_);
  }
  /// The value in float32; each reader has its own conversion, which costs it nothing inside a loop.
  Value wideForm(Value v, Operation *op) {
    if (elementTypeOf(v) != narrow_ || !lowered_.contains(v))
      return v;
    writer_.moveBefore(op);
    setName(v, op);
    return writer_.cast(v, Float32Type::get(v.getContext()));
  }
  /// Conversions stand where the value is made, so that every reader may use them; those of arguments where the
  /// first of them is, so that they take no memory before.
  void moveBehind(Value v, Operation *op) {
    Operation *maker = v.getDefiningOp();
    writer_.moveBefore(maker ? maker->getNextNode() : op);
  }
  void setName(Value v, Operation *op) {
    Operation *maker = v.getDefiningOp();
    // What stems from an operator is called "NAME/...": strategies for NAME speak of it as well.
    std::string name =
        maker ? nameOf(maker) + "/cast" : argName(func_, cast<BlockArgument>(v).getArgNumber()).str() + ".cast";
    writer_.setName(name);
    writer_.setOrigin(maker ? maker : op);
  }

  void rewrite(Operation *op) {
    Precision kind = precisionOf(op);
    if (kind == Precision::Products && isSingle(op->getResult(0))) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(narrowForm(operand.get(), op));
      op->setAttr(kWide, UnitAttr::get(op->getContext()));
    } else if (runsNarrow(op)) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(narrowForm(operand.get(), op));
      for (Value result : op->getResults())
        if (isSingle(result)) {
          lowered_.insert(result);
          result.setType(RankedTensorType::get(shapeOf(result), narrow_));
        }
    } else if (kind == Precision::Normalizes && narrowValues_.contains(op->getResult(0))) {
      for (OpOperand &operand : op->getOpOperands()) {
        Value v = operand.get();
        bool held = lowered_.contains(v) || (isSingle(v) && isData(op, v) && narrowValues_.contains(v));
        if (!held)
          continue;
        Value low = narrowForm(v, op);
        lowered_.insert(low);
        operand.set(wideForm(low, op));
      }
    } else {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(wideForm(operand.get(), op));
    }
  }

  func::FuncOp func_;
  FloatType narrow_;
  OpWriter writer_;
  std::vector<Operation *> ops_; // of the program as it came
  // Looked up only, never walked.
  DenseSet<Value> narrowValues_, goesAlong_, wanted_, lowered_;
  DenseMap<Value, Value> narrowForms_;
};

struct LowerPrecision : impl::LowerPrecisionPassBase<LowerPrecision> {
  using Base::Base;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    FloatType narrow;
    if (type == "bf16")
      narrow = BFloat16Type::get(&getContext());
    else if (type == "f16")
      narrow = Float16Type::get(&getContext());
    else {
      getOperation().emitError("graph-lower-precision: the type is bf16 or f16, not ") << type;
      return signalPassFailure();
    }
    PrecisionLowering(getOperation(), narrow).run();
  }
};

} // namespace

} // namespace tessera::compiler
