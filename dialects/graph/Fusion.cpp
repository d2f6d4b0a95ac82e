#include "dialects/graph/Fusion.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"

using namespace mlir;

namespace tessera::graph {

static bool isSplat(Operation *op) {
  if (!op->hasTrait<OpTrait::ConstantLike>())
    return false;
  auto value = op->getAttrOfType<DenseElementsAttr>("value");
  if (!value || !value.isSplat())
    return false;
  // An expression holds numbers as doubles.
  auto integer = dyn_cast<IntegerType>(value.getElementType());
  return !integer || integer.getWidth() <= 32 || value.getSplatValue<APInt>().getSignificantBits() <= 53;
}

LoopPart loopPart(Operation *op) {
  if (isSplat(op) || isStretch(op) || isWidening(op))
    return LoopPart::Free;
  if (isElementwise(op))
    return LoopPart::Points;
  return plainReduction(op) ? LoopPart::Reduction : LoopPart::None;
}

/// No window, and every factor that has an extent is of one of the kinds.
static bool hasOnly(const dist::ShardingRule &rule, std::initializer_list<dist::FactorKind> kinds) {
  return rule.windows.empty() && llvm::all_of(rule.factors, [&](const dist::Factor &f) {
           return f.size == 1 || llvm::is_contained(kinds, f.kind);
         });
}

bool streams(const dist::ShardingRule &rule) { return hasOnly(rule, {dist::FactorKind::PassThrough}); }

bool mayEndLoop(const dist::ShardingRule &rule) {
  return streams(rule) ||
         (rule.operands.size() == 1 && hasOnly(rule, {dist::FactorKind::PassThrough, dist::FactorKind::Reduce}));
}

} // namespace tessera::graph
