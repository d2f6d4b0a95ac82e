//===- Precision.cpp - mixed precision -------------------------------------------------------------===//
//
// The pass lowers a whole program after the gradients are built (docs/adr/0008-mixed-precision.md). Products take
// 16-bit operands and sum in float32. Operators between products that lose little are computed and stored in 16 bits.
// Everything else stays in float32: statistics, losses, gradients of parameters, the optimizer, and the parameters.
// graph::precisionOf gives the kind of an operator.
//
//   %h = matmul %x, %w          %xl = cast %x; %wl = cast %w; %h = matmul %xl, %wl {wide}      float32
//   %r = relu %h          ->    %hl = cast %h; %r = relu %hl                                   16 bits
//   %y = matmul %r, %v          %vl = cast %v; %y = matmul %r, %vl {wide}                      float32
//   %s = reduce_sum %y          %s = reduce_sum %y                                             float32
//
// Two sweeps decide. In the forward sweep a value is *narrow* if it is the result of a product, or if an operator of
// the kind Follows makes it from narrow values. (Its other operands may be parameters and constants.) In the backward
// sweep such an operator runs in 16 bits if a reader of its result takes 16 bits. So the sums that products hand to the
// optimizer and the loss are never rounded, and an addition of gradients that only the optimizer reads is in float32.
//
// With narrow products a product stores 16 bits if another product depends on it, and what follows it stays narrow. The
// gradients of parameters are sums in float32 then, too.
//
//   %h = matmul %xl, %wl        16 bits
//   %r = relu %h                16 bits
//   %y = matmul %r, %vl {wide}  float32
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
  PrecisionLowering(func::FuncOp func, FloatType narrow, bool narrowProducts)
      : func_(func), narrow_(narrow), narrowProducts_(narrowProducts), writer_(func) {}

  void run() {
    for (Operation &op : func_.getBody().front().without_terminator())
      ops_.push_back(&op);
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      if (argRole(func_, i) == kParameter)
        goesAlong_.insert(func_.getArgument(i));
    for (Operation *op : ops_)
      findNarrow(op);
    for (Operation *op : llvm::reverse(ops_)) {
      findFeeding(op);
      findWanted(op);
    }
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
  /// Whether the value has the type of the first result. A normalisation stores such operands and results in 16 bits.
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
      for (Value result : sumsOf(op))
        if (isSingle(result))
          narrowValues_.insert(result);
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
    // A comparison reads 16-bit operands only if another operator needs them in 16 bits anyway.
    if (!isFloat(op->getResult(0)))
      return followsNarrow(op) && llvm::all_of(op->getOperands(), [&](Value v) {
               return !isFloat(v) || goesAlong_.contains(v) || wanted_.contains(v);
             });
    Value result = op->getResult(0);
    return narrowValues_.contains(result) && (wanted_.contains(result) || isHeldNarrow(op));
  }

  /// Whether what follows from products, or a product's sum, is held in 16 bits whoever reads it.
  bool isHeldNarrow(Operation *op) const { return narrowProducts_ && feeding_.contains(op); }

  void findFeeding(Operation *op) {
    if (llvm::any_of(op->getUsers(), [&](Operation *reader) {
          return precisionOf(reader) == Precision::Products || feeding_.contains(reader);
        }))
      feeding_.insert(op);
  }

  void findWanted(Operation *op) {
    Precision kind = precisionOf(op);
    if (kind == Precision::Normalizes && narrowValues_.contains(op->getResult(0))) {
      for (Value v : op->getOperands())
        if (isData(op, v) && narrowValues_.contains(v))
          wanted_.insert(v);
    } else if (kind == Precision::Products || (isFloat(op->getResult(0)) && runsNarrow(op))) {
      for (OpOperand &operand : op->getOpOperands())
        if (isFloat(operand.get()) && isFactor(operand))
          wanted_.insert(operand.get());
    }
  }

  /// The value in 16 bits, for the reader `op`.
  Value narrowForm(Value v, Operation *op) {
    if (!isSingle(v))
      return v; // integers, and values that have 16 bits already
    if (Value known = narrowForms_.lookup(v))
      return known;
    return narrowForms_[v] = makeNarrowForm(v, op);
  }
  /// Whether there is a 16-bit form of the value, or the loop that makes it can make one, too.
  bool hasNarrowForm(Value v) const {
    Operation *maker = v.getDefiningOp();
    return isSingle(v) && (narrowForms_.contains(v) || (maker && isElementwise(maker)));
  }
  /// The value as a factor of a product. What is true or false, as what dropout keeps, is 1 or 0 there: in the form in
  /// which libraries multiply it, and the loop that makes it stores nothing else.
  Value factorForm(Value v, Operation *op) {
    if (!elementTypeOf(v).isInteger(1))
      return narrowForm(v, op);
    Value &known = narrowForms_[v];
    return known ? known : known = makeNarrowForm(v, op);
  }
  Value makeNarrowForm(Value v, Operation *op) {
    if (std::optional<double> splat = splatOf(v)) {
      moveBehind(v, op);
      return writer_.constant(RankedTensorType::get(shapeOf(v), narrow_), *splat);
    }
    // What is only seen under another shape is converted where it is made: there the conversion can be part of a loop,
    // and readers under several shapes share it.
    if (auto reshape = v.getDefiningOp<ReshapeOp>(); reshape && hasNarrowForm(reshape.getX())) {
      Value low = narrowForm(reshape.getX(), op);
      moveBehind(v, op);
      setName(v, op);
      return writer_.reshape(low, shapeOf(v));
    }
    moveBehind(v, op);
    setName(v, op);
    return writer_.cast(v, narrow_);
  }
  /// The value in float32, for the reader `op`. Each reader has its own conversion, which costs nothing inside a loop.
  Value wideForm(Value v, Operation *op) {
    if (elementTypeOf(v) != narrow_ || !lowered_.contains(v))
      return v;
    writer_.moveBefore(op);
    setName(v, op);
    return writer_.cast(v, Float32Type::get(v.getContext()));
  }
  /// Moves the builder to where a conversion is inserted: right behind the operator that makes the value, so that every
  /// reader can use it. The conversion of an argument stands before its first reader, so that it takes no memory
  /// before.
  void moveBehind(Value v, Operation *op) {
    Operation *maker = v.getDefiningOp();
    writer_.moveBefore(maker ? maker->getNextNode() : op);
  }
  void setName(Value v, Operation *op) {
    Operation *maker = v.getDefiningOp();
    // The name begins with "NAME/", so that a user's strategies for NAME apply to the conversion, too.
    std::string name =
        maker ? nameOf(maker) + "/cast" : argName(func_, cast<BlockArgument>(v).getArgNumber()).str() + ".cast";
    writer_.setName(name);
    writer_.setOrigin(maker ? maker : op);
  }

  void lower(ResultRange results) {
    for (Value result : results)
      if (isSingle(result)) {
        lowered_.insert(result);
        result.setType(RankedTensorType::get(shapeOf(result), narrow_));
      }
  }

  void rewrite(Operation *op) {
    Precision kind = precisionOf(op);
    if (kind == Precision::Products && isSingle(op->getResult(0))) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(isFactor(operand) ? factorForm(operand.get(), op) : wideForm(operand.get(), op));
      if (isHeldNarrow(op))
        lower(sumsOf(op));
      else
        op->setAttr(kWide, UnitAttr::get(op->getContext()));
    } else if (runsNarrow(op)) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(narrowForm(operand.get(), op));
      lower(op->getResults());
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
  bool narrowProducts_;
  OpWriter writer_;
  std::vector<Operation *> ops_; // of the program as it came
  // Looked up only, never walked.
  DenseSet<Value> narrowValues_, goesAlong_, wanted_, lowered_;
  DenseSet<Operation *> feeding_; // a product depends on them
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
    if (products != "wide" && products != "narrow") {
      getOperation().emitError("graph-lower-precision: products are wide or narrow, not ") << products;
      return signalPassFailure();
    }
    PrecisionLowering(getOperation(), narrow, products == "narrow").run();
  }
};

} // namespace

} // namespace tessera::compiler
