//===- InsertReshards.cpp - phase 3 to phase 4 ------------------------------------------------===//
//
// The pass inserts a dist.reshard wherever a value has another sharding than its reader needs; the function's results
// are readers, too. dist::ReshardedValues says where the reshard stands. Readers that need the same sharding share it.
// If an operator's strategy hands a result on with another sharding than its factors give (for example, reduces it at
// once), the reshard stands right behind the operator, and no reader sees the natural sharding.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/OwnCollectives.h"
#include "dialects/dist/ReshardedValues.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "compiler/partition/Passes.h.inc"

using dist::Mesh;
using dist::Sharding;

namespace {

class FunctionResharder {
public:
  FunctionResharder(func::FuncOp func, const Mesh &mesh)
      : func_(func), mesh_(mesh), builder_(func.getContext()), resharded_(mesh) {}

  LogicalResult run() {
    if (!func_.getBody().hasOneBlock())
      return func_.emitError("must have one block");
    for (unsigned i = 0; i < func_.getNumArguments(); ++i) {
      std::optional<Sharding> sharding = argSharding(func_, i, mesh_);
      if (!sharding)
        return failure();
      if (sharding->isPartial())
        return func_.emitError() << "argument " << i << " ('" << graph::argName(func_, i)
                                 << "') is partial; arguments cannot be: give it a sharding without a sum";
      shardings_[func_.getArgument(i)] = *sharding;
    }
    for (Operation &op : llvm::make_early_inc_range(func_.getBody().front())) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        if (failed(visitReturn(op)))
          return failure();
      } else if (failed(visit(&op))) {
        return failure();
      }
    }
    return success();
  }

private:
  LogicalResult visit(Operation *op) {
    std::optional<ShardedOp> sharded = ShardedOp::get(op, mesh_);
    if (!sharded)
      return failure();
    for (OpOperand &operand : op->getOpOperands())
      if (failed(require(operand, sharded->operand(int(operand.getOperandNumber())))))
        return failure();
    builder_.setInsertionPointAfter(op);
    for (auto [r, own] :
         llvm::enumerate(dist::resultReshards(sharded->rule, sharded->strategy, mesh_, dist::resultShapes(op)))) {
      Value result = op->getResult(unsigned(r));
      shardings_[result] = own.from;
      if (dist::sameSharding(mesh_, own.from, own.to))
        continue;
      const StringAttr sentAs = sentAsOf(result);
      dist::ReshardOp reshard = makeReshard(result, own.from, own.to, op, sentAs);
      result.replaceAllUsesExcept(reshard.getY(), reshard);
    }
    return success();
  }

  LogicalResult visitReturn(Operation &op) {
    for (OpOperand &operand : op.getOpOperands()) {
      std::optional<Sharding> want = resultSharding(func_, operand.getOperandNumber(), mesh_);
      if (!want)
        return failure();
      if (want->isPartial())
        return func_.emitError() << "result " << operand.getOperandNumber() << " ('"
                                 << graph::resultName(func_, operand.getOperandNumber())
                                 << "') is partial; results cannot be: give it a sharding without a sum";
      if (failed(require(operand, *want)))
        return failure();
    }
    return success();
  }

  /// Gives the operand the sharding `want`, by a reshard if necessary.
  LogicalResult require(OpOperand &operand, const Sharding &want) {
    Value value = operand.get();
    Operation *user = operand.getOwner();
    const Sharding have = shardings_.lookup(value);
    if (dist::sameSharding(mesh_, have, want))
      return success();
    if (!dist::canReshard(mesh_, have, want))
      return user->emitError() << "operator '" << graph::nameOf(user) << "' expects operand "
                               << operand.getOperandNumber() << " " << dist::notOwed(mesh_, have, want);
    dist::ReshardedValues::Want wanted = resharded_.want(value.getAsOpaquePointer(), have, want);
    if (wanted.first) {
      const bool whereMade = dist::ReshardedValues::paidWhereMade(have);
      if (whereMade)
        builder_.setInsertionPointAfterValue(value);
      else
        builder_.setInsertionPoint(user);
      Operation *from = whereMade && value.getDefiningOp() ? value.getDefiningOp() : user;
      copies_.push_back(makeReshard(value, have, want, from, sentAsOf(value)).getY());
    }
    operand.set(copies_[wanted.copy]);
    return success();
  }

  /// In what the terms of the sum may be sent that the value is; null: as they are.
  StringAttr sentAsOf(Value value) {
    const dist::Wire wire = graph::sentAs(value);
    return wire ? builder_.getStringAttr(wire.str()) : StringAttr();
  }

  dist::ReshardOp makeReshard(Value value, const Sharding &from, const Sharding &to, Operation *onBehalfOf,
                              StringAttr sentAs) {
    MLIRContext *context = builder_.getContext();
    auto op = dist::ReshardOp::create(builder_, onBehalfOf->getLoc(), value.getType(), value,
                                      dist::ShardingAttr::get(context, mesh_, from),
                                      dist::ShardingAttr::get(context, mesh_, to));
    if (!onBehalfOf->hasTrait<OpTrait::IsTerminator>())
      op->setAttr(graph::kNameAttr, builder_.getStringAttr(graph::nameOf(onBehalfOf)));
    if (sentAs && from.isPartial())
      op->setAttr(graph::kSentAsAttr, sentAs);
    shardings_[op.getY()] = to;
    return op;
  }

  func::FuncOp func_;
  const Mesh &mesh_;
  OpBuilder builder_;
  llvm::DenseMap<Value, Sharding> shardings_; // looked up only
  dist::ReshardedValues resharded_;
  std::vector<Value> copies_; // as resharded_ numbers them
};

struct InsertReshardsPass : impl::InsertReshardsPassBase<InsertReshardsPass> {
  void runOnOperation() override {
    Mesh mesh = dist::getMesh(getOperation());
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      if (failed(FunctionResharder(func, mesh).run()))
        return signalPassFailure();
  }
};

} // namespace

} // namespace tessera::compiler
