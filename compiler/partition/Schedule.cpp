//===- Schedule.cpp - an order that needs less memory --------------------------------------------===//
//
// The program's own order, except that what makes no more memory live than it frees runs as soon as it can:
// a parameter is updated when its gradient is there, and the gradient's memory is free again.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Order.h"
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_SCHEDULEPASS
#include "compiler/partition/Passes.h.inc"

namespace {

class Liveness {
public:
  explicit Liveness(func::FuncOp func) {
    Block &block = func.getBody().front();
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StringRef role = graph::argRole(func, i);
      if (role == graph::kParameter || role == graph::kState)
        free_.insert(func.getArgument(i)); // its memory is never given back
      if (std::optional<unsigned> result = graph::updateOf(func, i))
        if (*result < block.getTerminator()->getNumOperands())
          free_.insert(block.getTerminator()->getOperand(*result)); // takes the old value's place
    }
    for (Operation &op : block) {
      llvm::SmallDenseMap<Value, int> here;
      for (Value operand : op.getOperands()) {
        const Value of = root(operand);
        ++uses_[of];
        most_[of] = std::max(most_[of], ++here[of]);
      }
    }
  }

  /// Bytes that come to life in the operator less those that die.
  int64_t growth(Operation *op) const {
    if (graph::isView(op))
      return 0;
    int64_t bytes = 0;
    for (Value result : op->getResults())
      if (!free_.contains(result))
        bytes += size(result);
    llvm::SmallDenseMap<Value, int> here;
    for (Value operand : op->getOperands())
      if (++here[root(operand)] == uses_.lookup(root(operand)) && !free_.contains(root(operand)))
        bytes -= size(root(operand));
    return bytes;
  }

  /// Calls `changed` for operators whose growth may be another now.
  void placed(Operation *op, llvm::function_ref<void(Operation *)> changed) {
    for (Value operand : op->getOperands())
      --uses_[root(operand)];
    // A value with more readers than one operator can be dies with none of them yet.
    for (Value operand : op->getOperands())
      if (Value of = root(operand); !free_.contains(of) && uses_.lookup(of) <= most_.lookup(of))
        eachUser(of, changed);
  }

private:
  static Value root(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (!graph::isView(op))
        break;
      value = op->getOperand(0);
    }
    return value;
  }

  /// Who reads it, or a view of it.
  static void eachUser(Value value, llvm::function_ref<void(Operation *)> visit) {
    for (Operation *user : value.getUsers()) {
      visit(user);
      if (graph::isView(user))
        eachUser(user->getResult(0), visit);
    }
  }

  static int64_t size(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
  }

  llvm::DenseMap<Value, int> uses_; // of roots, by operators that are not placed yet
  llvm::DenseMap<Value, int> most_; // of roots, by one operator
  llvm::DenseSet<Value> free_;
};

struct SchedulePass : impl::SchedulePassBase<SchedulePass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      Liveness liveness(func);
      sortByDependence(
          func.getBody().front(), [&](Operation *op) { return liveness.growth(op) <= 0; },
          [&](Operation *op, Reconsider again) { liveness.placed(op, again); });
    }
  }
};

} // namespace

} // namespace tessera::compiler
