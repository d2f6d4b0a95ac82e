#include "dialects/dist/DistInterfaces.h"

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

Expected<ShardingRule> buildRule(StringRef text, Operation *op) {
  if (text == "custom")
    return createStringError(op->getName().getStringRef() + " does not say its sharding rule");
  return ShardingRule::parse(text, operandShapes(op), resultShapes(op));
}

} // namespace tessera::dist
