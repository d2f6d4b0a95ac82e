//===- Localize.cpp - phase 4 to phase 5 ------------------------------------------------------===//
//
// Types become those of one rank. Reshards become the collectives of the planner. Operands over which a window slides
// get their neighbours' borders. An operator changes its other attributes (pads, sizes, indices) itself, in localize().
// Attributes that depend on the rank are stored in `dist.per_rank`, one dictionary per rank, so that emission needs
// neither the rule nor the global shapes.
//
// A partial sum that passes through a linear operator needs no change, since each rank applies the operator to its
// term.
//
// A reshard that may send the terms of its sum in fewer bits (graph.sent_as) does so where that pays
// (dialects/dist/wire/WirePlanner.h); NarrowSums.h and FactorSums.h write such a sum.
//
// Where a summed factor has leaves (docs/adr/0021-equal-bits.md), an operator becomes one operator per leaf, and the
// tree that adds their results.
//
// The contents of padding are undefined (dialects/dist/Sharding.h) and must not reach a result. So right before an
// operator that reduces over a padded dimension, the padding is overwritten by the reduction's neutral element
// (dist::paddingMasks). Inputs and parameters have zeros in their padding. Values that are kept for the next step get
// zeros again, so that the padding of parameters need not be overwritten before a sum.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/LeafCut.h"
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"
#include "compiler/partition/compress/FactorSums.h"
#include "compiler/partition/compress/NarrowSums.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/OwnCollectives.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/dist/wire/WirePlanner.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/GraphOrigin.h"
#include "dialects/graph/GraphPadding.h"
#include "dialects/graph/InPlace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseSet.h"

#include <limits>
#include <map>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_LOCALIZEPASS
#include "compiler/partition/Passes.h.inc"

using dist::Collective;
using dist::Mesh;
using dist::Shape;
using dist::Sharding;

namespace {

int64_t elementBytes(Type type) { return (cast<RankedTensorType>(type).getElementTypeBitWidth() + 7) / 8; }

class FunctionLocalizer {
public:
  FunctionLocalizer(func::FuncOp func, const Mesh &mesh, dist::WirePlanner &planner)
      : func_(func), mesh_(mesh), planner_(planner), builder_(func.getContext()) {}

  LogicalResult run() {
    // Rules are those of the global program, so all of them are read before the first type changes.
    std::vector<std::pair<Operation *, std::optional<ShardedOp>>> ops;
    for (Operation &op : func_.getBody().front().without_terminator()) {
      std::optional<ShardedOp> sharded;
      if (!isa<dist::ReshardOp>(op)) {
        sharded = ShardedOp::get(&op, mesh_);
        if (!sharded)
          return failure();
      }
      ops.emplace_back(&op, std::move(sharded));
    }
    // The global shapes are read now, too, since operands are local when the loop reaches their users.
    std::vector<std::pair<SmallVector<Shape>, SmallVector<Shape>>> shapes;
    for (auto &[op, sharded] : ops)
      shapes.emplace_back(dist::operandShapes(op), dist::resultShapes(op));

    for (unsigned i = 0; i < func_.getNumArguments(); ++i) {
      std::optional<Sharding> sharding = argSharding(func_, i, mesh_);
      if (!sharding)
        return failure();
      func_.setArgAttr(i, dist::kGlobalShapeAttr, shapeAttr(func_.getArgument(i).getType()));
      setLocal(func_.getArgument(i), *sharding);
      zeroPadded_.insert(func_.getArgument(i));
    }
    SmallVector<Shape> resultShapes;
    for (auto [i, type] : llvm::enumerate(func_.getResultTypes())) {
      func_.setResultAttr(unsigned(i), dist::kGlobalShapeAttr, shapeAttr(type));
      resultShapes.push_back(Shape(cast<RankedTensorType>(type).getShape()));
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      auto &[op, sharded] = ops[i];
      if (!sharded) {
        if (failed(lower(cast<dist::ReshardOp>(op), shapes[i].first[0])))
          return failure();
      } else {
        localize(*sharded, shapes[i].first, shapes[i].second);
      }
    }
    Operation *ret = func_.getBody().front().getTerminator();
    if (failed(keepZeros(ret, resultShapes)))
      return failure();
    if (narrowSums_)
      narrowSums_->finish();
    if (factorSums_)
      factorSums_->finish();
    func_.setFunctionType(builder_.getFunctionType(func_.getBody().getArgumentTypes(), ret->getOperandTypes()));
    return success();
  }

private:
  void setLocal(Value value, const Sharding &sharding) {
    auto type = cast<RankedTensorType>(value.getType());
    value.setType(RankedTensorType::get(sharding.localShape(mesh_, type.getShape()), type.getElementType()));
  }

  Attribute shapeAttr(Type type) { return builder_.getDenseI64ArrayAttr(cast<RankedTensorType>(type).getShape()); }

  LogicalResult lower(dist::ReshardOp reshard, ArrayRef<int64_t> shape) {
    auto from = reshard.getFrom().resolve(mesh_), to = reshard.getTo().resolve(mesh_);
    if (!from || !to) {
      consumeError(from.takeError());
      consumeError(to.takeError());
      return reshard.emitError("names an axis that is not in the mesh ") << mesh_.str();
    }
    builder_.setInsertionPoint(reshard);
    llvm::Expected<dist::Wire> wire = wireOf(reshard);
    if (!wire)
      return reshard.emitError(toString(wire.takeError()));
    if (auto next = onlyReshardOf(reshard); next && *wire && wire->kind != dist::Wire::Kind::Factors) {
      // A part of the sum is all that is read. It is not rounded again, as the whole sum is. Factors are no less for it.
      next.setFromAttr(reshard.getFrom());
      next->setAttr(graph::kSentAsAttr, reshard->getAttr(graph::kSentAsAttr));
      if (zeroPadded_.contains(reshard.getX()))
        zeroPadded_.insert(next.getX());
      reshard.replaceAllUsesWith(reshard.getX());
      reshard.erase();
      return success();
    }
    Value value = reshard.getX();
    Sharding at = *from;
    bool zeros = zeroPadded_.contains(value);
    for (const Collective &step : planner_.plan(shape, elementBytes(value.getType()), *from, *to, *wire)) {
      if (step.wire) {
        value = sumByWire(reshard, value, shape, step, at);
        zeros = zeros && step.wire.kind != dist::Wire::Kind::Factors;
        at = step.result;
        continue;
      }
      at = step.result;
      auto op = dist::CollectiveOp::create(builder_, reshard.getLoc(), value, mesh_, step);
      if (Attribute name = reshard->getAttr(graph::kNameAttr))
        op->setAttr(graph::kNameAttr, name);
      value = op.getY();
    }
    // Collectives move and sum blocks with their padding, and append zeros. So padding of zeros stays zero.
    if (zeros)
      zeroPadded_.insert(value);
    reshard.replaceAllUsesWith(value);
    reshard.erase();
    return success();
  }

  /// The reshard that alone reads the sum that this one finishes; null: something else does. The operator that asks for
  /// the wire may stand between.
  static dist::ReshardOp onlyReshardOf(dist::ReshardOp reshard) {
    Operation *op = reshard;
    do {
      if (!op->hasOneUse())
        return {};
      op = *op->getUsers().begin();
    } while (!isa<dist::ReshardOp>(op) && op->hasAttr(graph::kSentAsAttr));
    return dyn_cast<dist::ReshardOp>(op);
  }

  /// In what the terms of the sum may be sent.
  llvm::Expected<dist::Wire> wireOf(dist::ReshardOp reshard) const {
    auto text = reshard->getAttrOfType<StringAttr>(graph::kSentAsAttr);
    if (!text)
      return dist::Wire();
    if (!cast<RankedTensorType>(reshard.getType()).getElementType().isF32())
      return llvm::createStringError("sends " + text.getValue() + ", but sums of float32 numbers alone are sent so");
    return dist::Wire::parse(text.getValue());
  }

  /// A sum that sends less than its terms. `at`: the sharding of `term`.
  Value sumByWire(dist::ReshardOp reshard, Value term, ArrayRef<int64_t> shape, const Collective &step,
                  const Sharding &at) {
    // Elements share the scale of a block, or factors, so padding must be no number that counts.
    if (!zeroPadded_.contains(reshard.getX()) && step.wire.mixes())
      for (int64_t d = 0; d < at.rank(); ++d)
        if (at.isPadded(mesh_, shape, d))
          term = overwrite(term, at, Shape(shape), d, 0, reshard);
    auto by = [&](auto &sums) {
      if (!sums)
        sums.emplace(func_, mesh_);
      return sums->sum(term, step, at, reshard, parameterOf(reshard));
    };
    Value sum = step.wire.kind == dist::Wire::Kind::Factors ? by(factorSums_) : by(narrowSums_);
    builder_.setInsertionPoint(reshard);
    return sum;
  }

  /// The parameter whose gradient is summed: that of the reader that asks for the wire.
  static std::string parameterOf(dist::ReshardOp reshard) {
    Operation *op = reshard;
    while (isa<dist::ReshardOp>(op) && op->hasOneUse())
      op = *op->getUsers().begin();
    const StringRef parameter = graph::parameterUpdatedBy(op);
    return parameter.empty() ? graph::nameOf(reshard) : parameter.str();
  }

  void localize(ShardedOp &sharded, const SmallVector<Shape> &operandShapes, const SmallVector<Shape> &resultShapes) {
    Operation *op = sharded.op;
    dist::LocalizeContext ctx{mesh_, sharded.rule, sharded.strategy, {}, {}, operandShapes, resultShapes};
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      ctx.operands.push_back(sharded.operand(int(i)));
    for (OpResult result : op->getResults()) {
      ctx.results.push_back(sharded.natural(int(result.getResultNumber())));
      setLocal(result, ctx.results.back());
    }
    maskPadding(sharded, ctx);
    for (const dist::HaloExchange &halo : dist::haloExchanges(sharded.rule, sharded.strategy, mesh_, operandShapes))
      addHalo(op, halo);
    if (op->hasAttr(graph::kSentAsAttr)) { // the sum is finished
      op->replaceAllUsesWith(op->getOperands());
      op->erase();
      return;
    }
    if (std::optional<dist::LeafCut> cut = dist::leafCut(sharded.rule, sharded.strategy, mesh_)) {
      if (!op->hasTrait<graph::GraphAddsLeaves>()) {
        localizeLeaves(sharded, *cut, operandShapes, resultShapes);
        return;
      }
      op->setAttr(graph::kLeavesAttr, builder_.getI64IntegerAttr(cut->count));
    }
    sharded.op.localize(ctx);
    keepRankAttributes(op, ctx, [](int64_t rank) { return rank; });
  }

  /// Replaces an operator whose operands and results are a rank's by one operator per leaf.
  void localizeLeaves(ShardedOp &sharded, const dist::LeafCut &cut, const SmallVector<Shape> &operandShapes,
                      const SmallVector<Shape> &resultShapes) {
    Operation *op = sharded.op;
    const std::string name = graph::nameOf(op);
    dist::LocalizeContext ctx{cut.mesh, sharded.rule, cut.strategy, {}, {}, operandShapes, resultShapes};
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      ctx.operands.push_back(dist::operandSharding(cut.mesh, sharded.rule, cut.strategy, int(i)));
    for (unsigned r = 0; r < op->getNumResults(); ++r)
      ctx.results.push_back(dist::naturalResult(cut.mesh, sharded.rule, cut.strategy, int(r)));
    builder_.setInsertionPoint(op);
    if (graph::plainReduction(op)) { // one pass over the operand for all leaves, in a loop with whatever else reads it
      const SmallVector<Value> sums =
          graph::sumLeaves(builder_, op, op->getOperand(0), cut.dim(ctx.operands[0]), cut.count, name);
      op->getResult(0).replaceAllUsesWith(joinLeaves(builder_, sums, cut, ctx.results[0], name));
      op->erase();
      return;
    }
    std::vector<SmallVector<Value>> results(op->getNumResults());
    for (int64_t leaf = 0; leaf < cut.count; ++leaf) {
      SmallVector<Value> operands;
      for (unsigned i = 0; i < op->getNumOperands(); ++i)
        operands.push_back(sliceOnce(op->getOperand(i), cut, ctx.operands[i], leaf, name));
      Operation *part = builder_.clone(*op);
      part->setOperands(operands);
      part->setAttr(graph::kNameAttr, builder_.getStringAttr(name + ".leaf" + std::to_string(leaf)));
      for (OpResult result : part->getResults()) {
        const unsigned r = result.getResultNumber();
        auto type = cast<RankedTensorType>(result.getType());
        result.setType(
            RankedTensorType::get(ctx.results[r].localShape(cut.mesh, resultShapes[r]), type.getElementType()));
        results[r].push_back(result);
      }
      cast<dist::ShardingRuleOpInterface>(part).localize(ctx);
      keepRankAttributes(part, ctx, [&](int64_t rank) { return cut.rank(rank, leaf); });
    }
    for (OpResult result : op->getResults())
      result.replaceAllUsesWith(
          joinLeaves(builder_, results[result.getResultNumber()], cut, ctx.results[result.getResultNumber()], name));
    op->erase();
  }

  /// leafOperand; operators that slice a value alike share the slices.
  Value sliceOnce(Value value, const dist::LeafCut &cut, const Sharding &part, int64_t leaf, StringRef name) {
    Value &slice = slices_[{value.getAsOpaquePointer(), cut.dim(part), cut.count, leaf}];
    if (!slice)
      slice = leafOperand(builder_, value, cut, part, leaf, name);
    return slice;
  }

  /// A copy of `value` with `fill` in the padding of one dimension.
  Value overwrite(Value value, const Sharding &sharding, const Shape &global, int64_t dim, double fill,
                  Operation *onBehalfOf) {
    SmallVector<int64_t> held;
    for (int64_t rank = 0; rank < mesh_.numRanks(); ++rank)
      held.push_back(sharding.extent(mesh_, global, rank)[dim]);
    int64_t rows = tensorShape(value)[dim];
    Value &mask = rowMasks_[{sharding.rank(), dim, rows, held}];
    if (!mask) {
      OpBuilder atStart = OpBuilder::atBlockBegin(&func_.getBody().front());
      mask = graph::makeRowMask(atStart, func_.getLoc(), sharding.rank(), dim, rows, held);
    }
    Value masked = graph::keepRows(builder_, onBehalfOf->getLoc(), mask, value, fill);
    if (!onBehalfOf->hasTrait<OpTrait::IsTerminator>())
      masked.getDefiningOp()->setAttr(graph::kNameAttr, builder_.getStringAttr(graph::nameOf(onBehalfOf)));
    return masked;
  }

  /// Overwrites the padding over which the operator would reduce.
  void maskPadding(const ShardedOp &sharded, const dist::LocalizeContext &ctx) {
    Operation *op = sharded.op;
    builder_.setInsertionPoint(op);
    for (const dist::PaddingMask &mask : dist::paddingMasks(sharded.rule, sharded.strategy, mesh_)) {
      OpOperand &operand = op->getOpOperand(unsigned(mask.operand));
      Value value = operand.get();
      bool sum = mask.reduction == dist::Reduction::Sum;
      if (sum && zeroPadded_.contains(value))
        continue;
      double fill = sum ? 0 : std::numeric_limits<double>::infinity();
      if (mask.reduction == dist::Reduction::Max)
        fill = -fill;
      const Sharding &sharding = ctx.operands[mask.operand];
      Value &masked = masked_[{value.getAsOpaquePointer(), mask.dim, int(mask.reduction), sharding.str(mesh_)}];
      if (!masked)
        masked = overwrite(value, sharding, ctx.operandShapes[mask.operand], mask.dim, fill, op);
      operand.set(masked);
    }
  }

  /// Writes zeros into the padding of new values of parameters and states, so that it is zero in the next step, too.
  LogicalResult keepZeros(Operation *ret, ArrayRef<Shape> shapes) {
    builder_.setInsertionPoint(ret);
    for (unsigned arg = 0; arg < func_.getNumArguments(); ++arg) {
      std::optional<unsigned> result = graph::updateOf(func_, arg);
      if (!result || *result >= ret->getNumOperands())
        continue; // emission reports a missing result
      std::optional<Sharding> sharding = resultSharding(func_, *result, mesh_);
      if (!sharding)
        return failure();
      Value value = ret->getOperand(*result);
      if (zeroPadded_.contains(value))
        continue;
      for (int64_t d = 0; d < sharding->rank(); ++d)
        if (sharding->isPadded(mesh_, shapes[*result], d))
          value = overwrite(value, *sharding, shapes[*result], d, 0, ret);
      ret->setOperand(*result, value);
    }
    return success();
  }

  void addHalo(Operation *op, const dist::HaloExchange &halo) {
    OpOperand &operand = op->getOpOperand(unsigned(halo.operand));
    builder_.setInsertionPoint(op);
    auto exchange = dist::CollectiveOp::create(builder_, op->getLoc(), operand.get(), mesh_, halo.collective);
    exchange->setAttr(graph::kNameAttr, builder_.getStringAttr(graph::nameOf(op)));
    operand.set(exchange.getY());
  }

  /// Sets the attributes that depend on the rank in dist.per_rank. If they are equal on all ranks, it sets them on the
  /// operator instead. `numberOf` gives a rank's number on the mesh of `ctx`.
  void keepRankAttributes(Operation *op, const dist::LocalizeContext &ctx,
                          llvm::function_ref<int64_t(int64_t)> numberOf) {
    SmallVector<Attribute> perRank;
    for (int64_t rank = 0; rank < mesh_.numRanks(); ++rank) {
      SmallVector<NamedAttribute> attributes;
      cast<dist::ShardingRuleOpInterface>(op).rankAttributes(ctx, numberOf(rank), attributes);
      if (attributes.empty())
        return;
      perRank.push_back(builder_.getDictionaryAttr(attributes));
    }
    if (llvm::all_equal(perRank)) {
      for (NamedAttribute attribute : cast<DictionaryAttr>(perRank[0]))
        op->setAttr(attribute.getName(), attribute.getValue());
      return;
    }
    op->setAttr(dist::kPerRankAttr, builder_.getArrayAttr(perRank));
  }

  func::FuncOp func_;
  const Mesh &mesh_;
  dist::WirePlanner &planner_;
  std::optional<NarrowSums> narrowSums_; // once there is one
  std::optional<FactorSums> factorSums_; // likewise
  OpBuilder builder_;
  llvm::DenseSet<Value> zeroPadded_; // known to have zeros in their padding
  /// By tensor rank, dimension, rows, rows held by rank.
  std::map<std::tuple<int64_t, int64_t, int64_t, SmallVector<int64_t>>, Value> rowMasks_;
  /// By value, dimension, leaves of a rank, leaf; looked up only.
  std::map<std::tuple<const void *, int64_t, int64_t, int64_t>, Value> slices_;
  /// By value, dimension, reduction, sharding; looked up only.
  std::map<std::tuple<const void *, int64_t, int, std::string>, Value> masked_;
};

struct LocalizePass : impl::LocalizePassBase<LocalizePass> {
  LocalizePass() = default;
  LocalizePass(CostOfMesh cost, dist::SumRules sums) : cost(std::move(cost)), sums(std::move(sums)) {}

  void runOnOperation() override {
    Mesh mesh = dist::getMesh(getOperation());
    dist::CollectiveCost price = cost ? cost(mesh) : dist::defaultCollectiveCost(mesh);
    if (dist::leavesOf(getOperation()) > 0)
      price = dist::inLeafOrder(std::move(price));
    dist::WirePlanner planner(mesh, price, sums), apart(mesh, std::move(price), {.narrows = sums.narrows});
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      const bool isApart = bool(func->removeAttr(dist::kApartAttr));
      if (failed(FunctionLocalizer(func, mesh, isApart ? apart : planner).run()))
        return signalPassFailure();
    }
    dist::setLeavesMade(getOperation());
  }

  CostOfMesh cost;
  dist::SumRules sums;
};

} // namespace

std::unique_ptr<Pass> createLocalizePass(CostOfMesh cost, dist::SumRules sums) {
  return std::make_unique<LocalizePass>(std::move(cost), std::move(sums));
}

} // namespace tessera::compiler
