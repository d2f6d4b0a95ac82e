#include "dialects/dist/DistInterfaces.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace llvm;
using namespace mlir;

#include "dialects/dist/DistInterfaces.cpp.inc"

namespace tessera::dist {

int64_t LocalizeContext::resultOffset(int64_t rank, int result, int64_t dim) const {
  return results[result].offset(mesh, resultShapes[result], rank)[dim];
}

int64_t LocalizeContext::operandOffset(int64_t rank, int operand, int64_t dim) const {
  return operands[operand].offset(mesh, operandShapes[operand], rank)[dim];
}

int64_t LocalizeContext::operandExtent(int64_t rank, int operand, int64_t dim) const {
  return operands[operand].extent(mesh, operandShapes[operand], rank)[dim];
}

int64_t LocalizeContext::factorShards(StringRef factor) const {
  int f = rule.findFactor(factor);
  return f < 0 ? 1 : mesh.size(strategy.factors[f]);
}

namespace {
template <typename Range> SmallVector<Shape> shapesOf(Range types) {
  SmallVector<Shape> shapes;
  for (Type type : types) {
    auto tensor = cast<RankedTensorType>(type);
    shapes.emplace_back(tensor.getShape().begin(), tensor.getShape().end());
  }
  return shapes;
}
} // namespace

SmallVector<Shape> operandShapes(Operation *op) { return shapesOf(op->getOperandTypes()); }
SmallVector<Shape> resultShapes(Operation *op) { return shapesOf(op->getResultTypes()); }

namespace {
/// Attributes as a rule's text reads them.
std::optional<SmallVector<int64_t>> ruleAttribute(Operation *op, StringRef name) {
  if (name == "floats") {
    auto from = dyn_cast<FloatType>(cast<RankedTensorType>(op->getOperand(0).getType()).getElementType());
    auto to = dyn_cast<FloatType>(cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
    return SmallVector<int64_t>{from && to && from.getWidth() <= to.getWidth()};
  }
  std::optional<Attribute> found = op->getInherentAttr(name);
  if (!found)
    return std::nullopt;
  if (!*found) // an optional one, or a flag that is not set
    return SmallVector<int64_t>{0};
  if (auto flag = dyn_cast<BoolAttr>(*found))
    return SmallVector<int64_t>{flag.getValue()};
  if (auto number = dyn_cast<IntegerAttr>(*found))
    return SmallVector<int64_t>{number.getInt()};
  if (auto list = dyn_cast<DenseI64ArrayAttr>(*found))
    return SmallVector<int64_t>(list.asArrayRef());
  return isa<UnitAttr>(*found) ? std::optional(SmallVector<int64_t>{1}) : std::nullopt;
}
} // namespace

Expected<ShardingRule> buildRule(StringRef text, Operation *op) {
  if (text == "custom")
    return createStringError(op->getName().getStringRef() + " does not say its sharding rule");
  Expected<ShardingRule> rule = ShardingRule::parse(text, operandShapes(op), resultShapes(op),
                                                    [&](StringRef name) { return ruleAttribute(op, name); });
  if (!rule || op->getNumOperands() == 0)
    return rule;
  // A maximum or minimum of integers has no neutral element that a plan could write into padding.
  if (!isa<FloatType>(cast<RankedTensorType>(op->getOperand(0).getType()).getElementType()))
    for (Factor &f : rule->factors)
      if (f.kind == FactorKind::Reduce && f.reduction != Reduction::Sum)
        f.padding = Factor::Padding::Refused;
  return rule;
}

} // namespace tessera::dist
