#include "dialects/graph/GraphKinds.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/InPlace.h"
#include "dialects/graph/OperandParts.h"
#include "runtime/support/Winograd.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tessera::graph {

bool isView(Operation *op) {
  return llvm::isa<ReshapeOp>(op) || op->hasAttr(kInPlaceAttr) || op->hasAttr(kReadAsPartAttr);
}

bool mayKeepCopy(Operation *op) { return op->hasAttr(kKeepsCopyAttr); }

dist::Wire sentAs(Value value) {
  auto text = value.hasOneUse() ? value.getUsers().begin()->getAttrOfType<StringAttr>(kSentAsAttr) : StringAttr();
  if (!text)
    return {};
  llvm::Expected<dist::Wire> wire = dist::Wire::parse(text.getValue());
  if (wire)
    return *wire;
  llvm::consumeError(wire.takeError());
  return {};
}

bool isStretch(Operation *op) { return llvm::isa<BroadcastOp>(op); }

/// By how many bits the result of a conversion between floating-point types is wider than the operand; 0: it is none.
static int widening(Operation *op) {
  if (!isElementwise(op) || op->getNumOperands() != 1 || op->getNumResults() != 1)
    return 0;
  auto from = llvm::dyn_cast<FloatType>(getElementTypeOrSelf(op->getOperand(0)));
  auto to = llvm::dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  return from && to ? int(to.getWidth()) - int(from.getWidth()) : 0;
}

bool isWidening(Operation *op) { return widening(op) > 0; }
bool isNarrowing(Operation *op) { return widening(op) < 0; }

bool roundsAlike(Operation *op) { return llvm::isa<NegOp, AbsOp, ReluOp, MaxOp, MinOp, SelectOp>(op); }

StringRef rateKind(Operation *op, ArrayRef<dist::Shape> operands, ArrayRef<dist::Shape> results) {
  const auto isLarge = [](auto conv, ArrayRef<int64_t> w, ArrayRef<int64_t> y) {
    return suitsWinograd({.images = y[0],
                          .inputs = w[1],
                          .outputs = w[0],
                          .groups = int64_t(conv.getGroups()),
                          .window = w.drop_front(2),
                          .strides = conv.getStrides(),
                          .dilations = conv.getDilations(),
                          .result = y.drop_front(2)});
  };
  const bool large = llvm::TypeSwitch<Operation *, bool>(op)
                         .Case([&](ConvOp conv) { return isLarge(conv, operands[1], results[0]); })
                         .Case([&](ConvInputGradOp conv) { return isLarge(conv, operands[1], operands[0]); })
                         .Case([&](ConvWeightGradOp conv) { return isLarge(conv, results[0], operands[1]); })
                         .Default([](Operation *) { return false; });
  return large ? "large 3x3" : "";
}

std::optional<int64_t> microBatches(Operation *op) {
  if (auto rows = llvm::dyn_cast<MicroRowsOp>(op))
    return int64_t(rows.getParts());
  if (auto sum = llvm::dyn_cast<AccumulateOp>(op))
    return int64_t(sum.getParts());
  if (auto fused = llvm::dyn_cast<FusedOp>(op))
    for (AccumulateOp sum : fused.getBody().getOps<AccumulateOp>())
      return int64_t(sum.getParts());
  if (auto anew = op->getAttrOfType<IntegerAttr>(kAnewAttr); anew && anew.getInt() > 1)
    return anew.getInt();
  return std::nullopt;
}

bool isAccumulation(Operation *op) { return llvm::isa<AccumulateOp>(op); }

bool isAccumulated(Value result) {
  Operation *op = result.getDefiningOp();
  if (auto fused = llvm::dyn_cast_if_present<FusedOp>(op)) {
    Value inner = fused.getBody().front().getTerminator()->getOperand(llvm::cast<OpResult>(result).getResultNumber());
    op = inner.getDefiningOp();
  }
  return op && isAccumulation(op);
}

llvm::StringRef kernelOf(Operation *op) {
  if (isLoop(op))
    return FusedOp::getOperationName().split('.').second;
  return isAccumulation(op) ? AddOp::getOperationName().split('.').second : op->getName().stripDialect();
}

static bool isInfinite(Attribute attribute) {
  if (auto number = llvm::dyn_cast<FloatAttr>(attribute))
    return number.getValue().isInfinity();
  auto numbers = llvm::dyn_cast<DenseFPElementsAttr>(attribute);
  if (!numbers)
    return false;
  if (numbers.isSplat())
    return numbers.getSplatValue<APFloat>().isInfinity();
  return llvm::any_of(numbers.getValues<APFloat>(), [](const APFloat &value) { return value.isInfinity(); });
}

bool holdsInfinity(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        for (NamedAttribute attribute : inner->getAttrDictionary())
          if (isInfinite(attribute.getValue()))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

std::optional<IndexedDim> indexedBy(OpOperand &indices) {
  auto gather = llvm::dyn_cast<GatherOp>(indices.getOwner());
  if (!gather || indices.get() != gather.getIndices() || indices.getOperandNumber() == 0)
    return std::nullopt;
  return IndexedDim{gather.getTable(), int64_t(gather.getAxis())};
}

bool handsOn(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (op->hasAttr(kWrapsIndicesAttr))
    return operand.getOperandNumber() + 1 == op->getNumOperands();
  if (auto c = llvm::dyn_cast<dist::CollectiveOp>(op))
    return c.getReduction().empty() && c.getCollectiveKind() != dist::CollectiveKind::Halo;
  if (llvm::isa<CastOp>(op)) {
    auto from = llvm::dyn_cast<IntegerType>(getElementTypeOrSelf(operand.get()));
    auto to = llvm::dyn_cast<IntegerType>(getElementTypeOrSelf(op->getResult(0)));
    return from && to && from.getWidth() <= to.getWidth();
  }
  return llvm::isa<ReshapeOp, BroadcastOp, TransposeOp, SliceOp, ConcatOp, MicroRowsOp>(op);
}

Precision precisionOf(Operation *op) {
  if (op->hasTrait<GraphProducts>())
    return Precision::Products;
  if (op->hasTrait<GraphFollows>())
    return Precision::Follows;
  return op->hasTrait<GraphNormalizes>() ? Precision::Normalizes : Precision::Wide;
}

static bool isLastOf(OpOperand &operand, Value last) {
  return last && operand.getOperandNumber() + 1 == operand.getOwner()->getNumOperands();
}

bool isFactor(OpOperand &operand) {
  return llvm::TypeSwitch<Operation *, bool>(operand.getOwner())
      .Case([&](AttentionOp o) {
        return operand.getOperandNumber() <= o.getVMutable().getOperandNumber() || isLastOf(operand, o.getKeep());
      })
      .Case([&](AttentionGradOp o) { return operand.getOperandNumber() <= o.getYMutable().getOperandNumber(); })
      .Default([](Operation *) { return true; });
}

ResultRange sumsOf(Operation *op) {
  return llvm::isa<AttentionOp>(op) ? op->getResults().take_front() : op->getResults();
}

std::optional<PlainReduction> plainReduction(Operation *op) {
  auto make = [](auto reduce, dist::Reduction reduction) {
    return PlainReduction{.reduction = reduction, .dims = llvm::SmallVector<int64_t>(reduce.getDims())};
  };
  return llvm::TypeSwitch<Operation *, std::optional<PlainReduction>>(op)
      .Case<ReduceSumOp>([&](auto o) { return make(o, dist::Reduction::Sum); })
      .Case<ReduceMaxOp>([&](auto o) { return make(o, dist::Reduction::Max); })
      .Case<ReduceMinOp>([&](auto o) { return make(o, dist::Reduction::Min); })
      .Case<LeafSumsOp>([](auto o) {
        return PlainReduction{dist::Reduction::Sum, llvm::SmallVector<int64_t>(o.getDims()), int64_t(o.getDim()),
                              int64_t(o.getLeaves())};
      })
      .Default([](Operation *) { return std::nullopt; });
}

bool isLoop(Operation *op) { return llvm::isa<FusedOp, LeafSumsOp>(op); }

} // namespace tessera::graph
