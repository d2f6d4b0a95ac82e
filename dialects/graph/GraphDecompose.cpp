#include "dialects/graph/GraphDecompose.h"

#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tessera::graph {

namespace {

/// Builds operators that carry the name of the operator that they replace.
class Writer {
public:
  Writer(Operation *op, OpBuilder &builder) : op_(op), builder_(builder) {}

  template <typename Op> Value make(ValueRange operands) {
    return named(Op::create(builder_, op_->getLoc(), operands));
  }

  template <typename Op> Value reduce(Value x, int64_t dim) {
    return named(
        Op::create(builder_, op_->getLoc(), x, builder_.getDenseI64ArrayAttr({dim}), builder_.getBoolAttr(true)));
  }

private:
  Value named(Operation *made) {
    if (Attribute name = op_->getAttr(kNameAttr))
      made->setAttr(kNameAttr, name);
    copyOrigin(op_, made);
    return made->getResult(0);
  }

  Operation *op_;
  OpBuilder &builder_;
};

} // namespace

bool hasStatistics(Operation *op) { return llvm::isa<SoftmaxOp, SoftmaxGradOp>(op); }

Value decomposeStatistics(Operation *op, OpBuilder &builder) {
  Writer w(op, builder);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<SoftmaxOp>([&](SoftmaxOp o) {
        Value max = w.reduce<ReduceMaxOp>(o.getX(), o.getDim());
        Value e = w.make<ExpOp>({w.make<SubOp>({o.getX(), max})});
        return w.make<DivOp>({e, w.reduce<ReduceSumOp>(e, o.getDim())});
      })
      .Case<SoftmaxGradOp>([&](SoftmaxGradOp o) {
        Value dot = w.reduce<ReduceSumOp>(w.make<MulOp>({o.getDy(), o.getY()}), o.getDim());
        return w.make<MulOp>({o.getY(), w.make<SubOp>({o.getDy(), dot})});
      })
      .Default([](Operation *) { return Value(); });
}

} // namespace tessera::graph
