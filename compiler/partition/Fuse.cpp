//===- Fuse.cpp - fuses elementwise operators and reductions into loops --------------------------===//
//
// The pass replaces every loop of graph::formLoops by one graph.fused. Operators that are Free (graph::LoopPart) are
// copied into each loop that reads them.
//
//   %0 = relu %x; %1 = mul %0, %s; %2 = reduce_sum %1   ->   %1, %2 = graph.fused(%x, %s) {relu mul reduce_sum}
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Order.h"
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/Unused.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Order.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_FUSEPASS
#include "compiler/partition/Passes.h.inc"

using graph::LoopPart;

namespace {

bool isFree(Operation *op) { return op && graph::loopPart(op) == LoopPart::Free; }

/// Whether loops compute the operator for themselves, from operands (a broadcast, a widening cast, what is repeated).
bool isPassing(Operation *op) { return isFree(op) && op->getNumOperands() > 0; }

class FunctionFuser {
public:
  explicit FunctionFuser(func::FuncOp func)
      : func_(func), program_(func), looped_(program_.flow, graph::formLoops(program_.flow)),
        tensors_(program_.tensors) {}

  void run() {
    for (size_t s = 0; s < looped_.members.size(); ++s)
      build(looped_.members[s], looped_.flow.steps[s]);
    // A loop stands in the place of its first member, which may be before a producer of its operands.
    sortByDependence(func_);
    graph::eraseUnused(func_.getBody().front());
  }

private:
  void build(ArrayRef<int> members, const graph::DataFlow::Step &loop) {
    SmallVector<Operation *> ops;
    for (int member : members)
      ops.push_back(program_.operators[member]);
    LoopPart part = program_.flow.steps[members.front()].part;
    if (part == LoopPart::None || part == LoopPart::Free)
      return;
    if (ops.size() == 1 && llvm::none_of(ops[0]->getOperands(), [](Value v) { return isFree(v.getDefiningOp()); }))
      return;
    SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
    SmallVector<Value> inputs, outputs;
    for (int value : loop.reads)
      inputs.push_back(tensors_[value]);
    for (int value : loop.makes)
      outputs.push_back(tensors_[value]);
    OpBuilder builder(ops.front());
    auto fused = graph::FusedOp::create(builder, ops.front()->getLoc(), TypeRange(ValueRange(outputs)), inputs);
    fused->setAttr(graph::kNameAttr, builder.getStringAttr(nameFor(ops)));
    for (StringRef name : {StringRef(graph::kSectionAttr), StringRef(graph::kTurnAttr)}) {
      auto has = llvm::find_if(ops, [&](Operation *op) { return op->hasAttr(name); });
      if (has != ops.end()) // the same of all that have it
        fused->setAttr(name, (*has)->getAttr(name));
    }
    int64_t ns = 0;
    for (Operation *op : ops)
      if (auto predicted = dyn_cast_or_null<IntegerAttr>(op->removeAttr(graph::kPredictedAttr)))
        ns += predicted.getInt();
    if (ns > 0)
      fused->setAttr(graph::kPredictedAttr, builder.getI64IntegerAttr(ns));
    Block *body = builder.createBlock(&fused.getBody());
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), fused.getLoc()));
    builder.setInsertionPointToStart(body);
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        cloneFree(operand, builder, mapping);
      builder.clone(*op, mapping);
    }
    SmallVector<Value> yielded;
    for (Value output : outputs)
      yielded.push_back(mapping.lookup(output));
    graph::YieldOp::create(builder, fused.getLoc(), yielded);
    for (auto [value, result] : llvm::zip(loop.makes, fused.getOutputs()))
      tensors_[value] = result;
    for (auto [output, result] : llvm::zip(outputs, fused.getOutputs()))
      output.replaceUsesWithIf(result, [&](OpOperand &use) { return usedOutside(use.getOwner(), inside); });
    for (Operation *op : llvm::reverse(ops)) {
      for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
        eraseUnused(user);
      op->erase();
    }
  }

  /// Whether a user of a value lies outside the loop. An operator that only passes the value on counts as outside if
  /// one of its readers does, since the loop has its own copy of it.
  static bool usedOutside(Operation *user, const SmallPtrSetImpl<Operation *> &inside) {
    if (!isPassing(user))
      return !inside.contains(user);
    return llvm::any_of(user->getUsers(), [&](Operation *next) { return usedOutside(next, inside); });
  }

  static void eraseUnused(Operation *op) {
    if (!isPassing(op))
      return;
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      eraseUnused(user);
    if (op->use_empty())
      op->erase();
  }

  static void cloneFree(Value value, OpBuilder &builder, IRMapping &mapping) {
    Operation *op = value.getDefiningOp();
    if (mapping.contains(value) || !isFree(op))
      return;
    for (Value operand : op->getOperands())
      cloneFree(operand, builder, mapping);
    builder.clone(*op, mapping);
  }

  /// The name of the loop: that of the first member that stems from the model, and the number of other members.
  static std::string nameFor(ArrayRef<Operation *> ops) {
    Operation *named = ops.front();
    for (Operation *op : llvm::reverse(ops))
      if (op->hasAttr(graph::kNameAttr) || op->hasAttr(graph::kGradOfAttr))
        named = op;
    std::string name = graph::nameOf(named);
    return ops.size() == 1 ? name : name + "+" + std::to_string(ops.size() - 1);
  }

  func::FuncOp func_;
  const graph::FunctionFlow program_;
  const graph::LoopedFlow looped_;
  std::vector<Value> tensors_; // for each value of the program the value that replaces it now
};

struct FusePass : impl::FusePassBase<FusePass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      FunctionFuser(func).run();
  }
};

} // namespace

} // namespace tessera::compiler
