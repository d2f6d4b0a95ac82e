//===- DecomposeStats.cpp - statistics that cross ranks ------------------------------------------===//
//
// An operator with `stat` factors (softmax) is one kernel while these are whole on a rank. Where a strategy
// cuts one, the operator is written as primitives: local statistics, their reduction over the ranks, and what
// is done with them. The primitives' strategies follow from the shardings of what they read; what they owe they
// pay at once.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphDecompose.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_DECOMPOSESTATSPASS
#include "compiler/partition/Passes.h.inc"

using dist::Mesh;
using dist::Sharding;
using dist::ShardingRule;
using dist::Strategy;

namespace {

/// The factors as the operands' shardings cut them.
Strategy follow(const ShardingRule &rule, Operation *op, const llvm::DenseMap<Value, Sharding> &shardings) {
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    const Sharding sharding = shardings.lookup(operand);
    for (auto [d, factors] : llvm::enumerate(rule.operands[i]))
      if (factors.size() == 1)
        strategy.factors[factors[0]] = sharding.dims[d];
  }
  return strategy;
}

LogicalResult decompose(Operation *op, const Mesh &mesh) {
  auto sharded = dyn_cast<dist::ShardingRuleOpInterface>(op);
  if (!sharded || !op->hasAttr(dist::kStrategyAttr))
    return success(); // the verifier of phase 3 speaks about these
  Expected<ShardingRule> rule = sharded.getShardingRule();
  if (!rule)
    return op->emitError() << "operator '" << graph::nameOf(op) << "': " << toString(rule.takeError());
  Expected<Strategy> strategy = dist::getStrategy(op, *rule, mesh);
  if (!strategy)
    return op->emitError() << "operator '" << graph::nameOf(op) << "': " << toString(strategy.takeError());
  if (dist::statisticsAxes(*rule, *strategy, mesh).empty())
    return success();
  if (Error e = dist::verifyStrategy(*rule, *strategy, mesh, dist::operandShapes(op), dist::resultShapes(op)))
    return op->emitError() << "operator '" << graph::nameOf(op) << "': " << toString(std::move(e));

  llvm::DenseMap<Value, Sharding> shardings;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    shardings[operand] = dist::operandSharding(*rule, *strategy, int(i));
  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  Value result = graph::decomposeStatistics(op, builder);
  if (!result)
    return op->emitError() << "operator '" << graph::nameOf(op)
                           << "' computes statistics over a dimension that its strategy cuts, and cannot be "
                              "written as primitives: leave that dimension whole";
  Block::iterator made = before ? std::next(before->getIterator()) : op->getBlock()->begin();
  for (Operation &primitive : llvm::make_range(made, op->getIterator())) {
    ShardingRule own = cantFail(cast<dist::ShardingRuleOpInterface>(&primitive).getShardingRule());
    Strategy chosen = follow(own, &primitive, shardings);
    Sharding handedOn = dist::naturalResult(own, chosen, 0);
    if (primitive.getResult(0) == result && !strategy->results.empty()) {
      handedOn = strategy->results[0];
      chosen.results = {handedOn};
    } else if (handedOn.isPartial()) {
      handedOn = handedOn.withoutPartial();
      chosen.results = {handedOn};
    }
    shardings[primitive.getResult(0)] = handedOn;
    dist::setStrategy(&primitive, own, mesh, chosen);
  }
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return success();
}

struct DecomposeStatsPass : impl::DecomposeStatsPassBase<DecomposeStatsPass> {
  void runOnOperation() override {
    Mesh mesh = dist::getMesh(getOperation());
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      for (Operation &op : llvm::make_early_inc_range(func.getBody().getOps()))
        if (failed(decompose(&op, mesh)))
          return signalPassFailure();
  }
};

} // namespace

} // namespace tessera::compiler
