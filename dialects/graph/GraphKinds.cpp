#include "dialects/graph/GraphKinds.h"

#include "dialects/graph/Graph.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tessera::graph {

bool isView(Operation *op) { return llvm::isa<ReshapeOp>(op); }

bool isStretch(Operation *op) { return llvm::isa<BroadcastOp>(op); }

bool isWidening(Operation *op) {
  if (!isElementwise(op) || op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  auto from = llvm::dyn_cast<FloatType>(getElementTypeOrSelf(op->getOperand(0)));
  auto to = llvm::dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  return from && to && from.getWidth() < to.getWidth();
}

Precision precisionOf(Operation *op) {
  if (op->hasTrait<GraphProducts>())
    return Precision::Products;
  if (op->hasTrait<GraphFollows>())
    return Precision::Follows;
  return op->hasTrait<GraphNormalizes>() ? Precision::Normalizes : Precision::Wide;
}

std::optional<PlainReduction> plainReduction(Operation *op) {
  auto make = [](auto reduce, dist::Reduction reduction) {
    return PlainReduction{reduction, llvm::SmallVector<int64_t>(reduce.getDims())};
  };
  return llvm::TypeSwitch<Operation *, std::optional<PlainReduction>>(op)
      .Case<ReduceSumOp>([&](auto o) { return make(o, dist::Reduction::Sum); })
      .Case<ReduceMaxOp>([&](auto o) { return make(o, dist::Reduction::Max); })
      .Case<ReduceMinOp>([&](auto o) { return make(o, dist::Reduction::Min); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace tessera::graph
