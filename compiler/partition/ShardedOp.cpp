#include "compiler/partition/ShardedOp.h"

#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

using dist::Mesh;
using dist::Sharding;

std::optional<ShardedOp> ShardedOp::get(Operation *op, const Mesh &mesh) {
  auto fail = [&](Error error) {
    op->emitError() << "operator '" << graph::nameOf(op) << "': " << toString(std::move(error));
    return std::nullopt;
  };
  auto sharded = dyn_cast<dist::ShardingRuleOpInterface>(op);
  if (!sharded)
    return fail(createStringError(op->getName().getStringRef() + " has no sharding rule"));
  for (Value v : llvm::concat<Value>(SmallVector<Value>(op->getOperands()), SmallVector<Value>(op->getResults())))
    if (auto type = dyn_cast<RankedTensorType>(v.getType()); !type || !type.hasStaticShape())
      return fail(createStringError("works on something that is no tensor of static shape"));
  Expected<dist::ShardingRule> rule = dist::boundRule(op);
  if (!rule)
    return fail(rule.takeError());
  Expected<dist::Strategy> strategy = dist::getStrategy(op, *rule, mesh);
  if (!strategy)
    return fail(strategy.takeError());
  if (Error error = dist::verifyStrategy(*rule, *strategy, mesh, dist::operandShapes(op), dist::resultShapes(op)))
    return fail(std::move(error));
  if (!dist::statisticsAxes(*rule, *strategy, mesh).empty())
    return fail(createStringError("its statistics are cut (rule " + rule->str() +
                                  "): run dist-decompose-stats before this pass"));
  return ShardedOp{sharded, std::move(*rule), std::move(*strategy), mesh};
}

static std::optional<Sharding> resolve(func::FuncOp func, Attribute attr, Type type, const Twine &what,
                                       const Mesh &mesh) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!sharding || !tensor || !tensor.hasStaticShape()) {
    func.emitError() << what << " of '" << func.getName() << "' has no sharding";
    return std::nullopt;
  }
  Expected<Sharding> resolved = sharding.resolve(mesh);
  if (!resolved) {
    func.emitError() << what << " of '" << func.getName() << "': " << toString(resolved.takeError());
    return std::nullopt;
  }
  if (Error error = resolved->verify(mesh, tensor.getShape())) {
    func.emitError() << what << " of '" << func.getName() << "': " << toString(std::move(error));
    return std::nullopt;
  }
  return *resolved;
}

std::optional<Sharding> argSharding(func::FuncOp func, unsigned arg, const Mesh &mesh) {
  return resolve(func, func.getArgAttr(arg, dist::kShardingAttr), func.getArgumentTypes()[arg],
                 "argument " + Twine(arg) + " ('" + graph::argName(func, arg) + "')", mesh);
}

std::optional<Sharding> resultSharding(func::FuncOp func, unsigned result, const Mesh &mesh) {
  return resolve(func, func.getResultAttr(result, dist::kShardingAttr), func.getResultTypes()[result],
                 "result " + Twine(result) + " ('" + graph::resultName(func, result) + "')", mesh);
}

dist::Shape tensorShape(Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return dist::Shape(shape.begin(), shape.end());
}

} // namespace tessera::compiler
