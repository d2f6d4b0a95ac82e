//===- DecomposeStats.cpp - operators whose statistics a strategy cuts ---------------------------===//
//
// An operator with `stat` factors (softmax) is one kernel if no strategy cuts these factors. If a strategy cuts one,
// this pass replaces the operator by primitives: local statistics, which are partial, and the operators that read them.
// The strategies of the primitives follow from the shardings of their operands. The partial results are exactly those
// that dist::statisticReshards lists, in the same order, and are reduced at once.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/OwnCollectives.h"
#include "dialects/dist/leaves/Leaves.h"
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

/// The strategy that cuts the factors as the operands' shardings cut them.
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

LogicalResult fail(Operation *op, const Twine &what) {
  return op->emitError() << "operator '" << graph::nameOf(op) << "'" << what;
}

/// Gives the primitives that stand before `op` their strategies. The last one has the result sharding of `op`. Any
/// other one whose result is partial computes the next statistic of the rule.
LogicalResult assignPrimitives(Operation *op, Block::iterator first, Value result, const ShardingRule &rule,
                               const Strategy &strategy, const Mesh &mesh) {
  llvm::DenseMap<Value, Sharding> shardings;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    shardings[operand] = dist::operandSharding(mesh, rule, strategy, int(i));
  const auto statistics = dist::statisticReshards(rule, strategy, mesh, dist::resultShapes(op));
  size_t reduced = 0;
  for (Operation &primitive : llvm::make_range(first, op->getIterator())) {
    ShardingRule own = cantFail(dist::boundRule(&primitive));
    Strategy chosen = follow(own, &primitive, shardings);
    Sharding handedOn = dist::naturalResult(mesh, own, chosen, 0);
    if (primitive.getResult(0) == result && !strategy.results.empty()) {
      handedOn = strategy.results[0];
      chosen.results = {handedOn};
    } else if (handedOn.isPartial()) {
      if (reduced == statistics.size() || !dist::sameSharding(mesh, statistics[reduced].from, handedOn))
        return fail(op, " has the partial result " + handedOn.str(mesh) + " as primitives, but the rule " + rule.str() +
                            " has no such statistic next");
      handedOn = statistics[reduced++].to;
      chosen.results = {handedOn};
    }
    shardings[primitive.getResult(0)] = handedOn;
    dist::setStrategy(&primitive, own, mesh, chosen);
  }
  if (reduced < statistics.size())
    return fail(op, " has fewer partial results as primitives than the rule " + rule.str() + " has statistics");
  return success();
}

LogicalResult decompose(Operation *op, const Mesh &mesh) {
  auto sharded = dyn_cast<dist::ShardingRuleOpInterface>(op);
  if (!sharded || !op->hasAttr(dist::kStrategyAttr))
    return success(); // the verifier of phase 3 reports operators without a strategy
  Expected<ShardingRule> rule = dist::boundRule(op);
  if (!rule)
    return fail(op, ": " + toString(rule.takeError()));
  Expected<Strategy> strategy = dist::getStrategy(op, *rule, mesh);
  if (!strategy)
    return fail(op, ": " + toString(strategy.takeError()));
  if (dist::statisticsAxes(*rule, *strategy, mesh).empty())
    return success();
  if (Error e = dist::verifyStrategy(*rule, *strategy, mesh, dist::operandShapes(op), dist::resultShapes(op)))
    return fail(op, ": " + toString(std::move(e)));

  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  Value result = graph::decomposeStatistics(op, builder);
  if (!result)
    return fail(op, " computes statistics over a dimension that its strategy cuts, and cannot be written as "
                    "primitives: leave that dimension whole");
  Block::iterator first = before ? std::next(before->getIterator()) : op->getBlock()->begin();
  if (failed(assignPrimitives(op, first, result, *rule, *strategy, mesh)))
    return failure();
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
