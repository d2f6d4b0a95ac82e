#include "dialects/dist/leaves/Leaves.h"

#include "dialects/dist/DistInterfaces.h"
#include "dialects/dist/leaves/LeafRule.h"

#include "mlir/IR/Builders.h"

using namespace llvm;
using namespace mlir;

namespace tessera::dist {

/// The modules of stages lie in the one that has the attribute.
static int64_t leavesIn(Operation *op, StringRef attribute) {
  for (; op; op = op->getParentOp())
    if (auto leaves = op->getAttrOfType<IntegerAttr>(attribute))
      return leaves.getInt();
  return 0;
}

int64_t leavesOf(Operation *op) { return std::max(leavesIn(op, kLeavesAttr), leavesIn(op, kMadeLeavesAttr)); }

void setLeaves(ModuleOp module, int64_t leaves) {
  module->setAttr(kLeavesAttr, Builder(module.getContext()).getI64IntegerAttr(leaves));
}

void setLeavesMade(ModuleOp module) {
  if (Attribute leaves = module->removeAttr(kLeavesAttr))
    module->setAttr(kMadeLeavesAttr, leaves);
}

Expected<ShardingRule> boundRule(Operation *op) {
  Expected<ShardingRule> rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  const int64_t most = leavesIn(op, kLeavesAttr);
  // Sums of integers have no order.
  auto isFloat = [](Type type) { return isa<FloatType>(cast<RankedTensorType>(type).getElementType()); };
  if (rule && most > 0 && any_of(op->getResultTypes(), isFloat))
    giveLeaves(*rule, most);
  return rule;
}

} // namespace tessera::dist
