#include "compiler/pipeline/Versions.h"

#include "compiler/pipeline/ProgramParts.h"

#include "dialects/dist/DistInterfaces.h"
#include "dialects/dist/DistOps.h"
#include "dialects/dist/exchange/MeshBoxes.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"

#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace tessera::compiler {

namespace {

class Borders {
public:
  Borders(func::FuncOp func, const dist::Mesh &mesh) : func_(func), mesh_(mesh), parts_(func) {}

  llvm::Error run() {
    for (BlockArgument argument : func_.getArguments())
      if (isOwned(func_, argument.getArgNumber()))
        if (llvm::Error e = cross(argument, stageIn(argument)))
          return e;
    for (int s : parts_.order) {
      Operation *op = parts_.program.operators[size_t(s)];
      if (!parts_.free[size_t(s)])
        for (OpResult result : op->getResults())
          if (llvm::Error e = cross(result, stageIn(op)))
            return e;
    }
    while (!paid_.empty()) {
      const auto [value, sharding] = paid_.pop_back_val();
      for (OpOperand &use : llvm::make_early_inc_range(value.getUses()))
        if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
          if (llvm::Error e = readPaid(use, sharding))
            return e;
    }
    return llvm::Error::success();
  }

private:
  /// A border for each stage that reads the value elsewhere.
  llvm::Error cross(Value value, int home) {
    std::map<int, llvm::SmallVector<OpOperand *>> readers; // by stage
    bool told = false;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>())
        told |= isTold(func_, use.getOperandNumber());
      else if (const int stage = stageIn(user); stage != kNoStage && stage != home)
        readers[stage].push_back(&use);
    }
    if (told)
      for (OpOperand &use : value.getUses())
        if (use.getOwner()->hasTrait<OpTrait::IsTerminator>())
          readers[kNoStage].push_back(&use); // every stage
    for (auto &[stage, uses] : readers) {
      llvm::Expected<Value> border = make(value, home);
      if (!border)
        return border.takeError();
      for (OpOperand *use : uses)
        use->set(*border);
    }
    return llvm::Error::success();
  }

  /// How the value is handed on, a parameter or state as it is kept.
  llvm::Expected<dist::Sharding> shardingOf(Value value) const {
    auto result = dyn_cast<OpResult>(value);
    if (!result)
      return func_.getArgAttrOfType<dist::ShardingAttr>(cast<BlockArgument>(value).getArgNumber(), dist::kShardingAttr)
          .resolve(mesh_);
    llvm::Expected<dist::ShardingRule> rule = dist::boundRule(result.getOwner());
    if (!rule)
      return rule.takeError();
    llvm::Expected<dist::Strategy> strategy = dist::getStrategy(result.getOwner(), *rule, mesh_);
    if (!strategy)
      return strategy.takeError();
    return dist::resultSharding(mesh_, *rule, *strategy, int(result.getResultNumber()));
  }

  llvm::Expected<Value> make(Value value, int home) {
    Operation *maker = value.getDefiningOp();
    OpBuilder builder(func_.getContext());
    builder.setInsertionPointAfterValue(value);
    auto border = graph::ReshapeOp::create(builder, value.getLoc(), value.getType(), value);
    const std::string name =
        maker ? graph::nameOf(maker) : graph::argName(func_, cast<BlockArgument>(value).getArgNumber()).str();
    border->setAttr(graph::kNameAttr, builder.getStringAttr(name + ".border"));
    if (Attribute of = maker ? maker->getAttr(graph::kGradOfAttr) : Attribute())
      border->setAttr(graph::kGradOfAttr, of);
    border->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(home));
    llvm::Expected<dist::Sharding> given = shardingOf(value);
    if (!given)
      return given.takeError();
    const auto shape = cast<RankedTensorType>(value.getType()).getShape();
    dist::Sharding wanted = given->withoutPartial();
    for (size_t d = 0; d < shape.size(); ++d)
      if (wanted.isPadded(mesh_, shape, int64_t(d)))
        wanted.dims[d] = {};
    llvm::Expected<dist::ShardingRule> own = dist::boundRule(border);
    if (!own)
      return own.takeError();
    dist::Strategy view;
    view.factors.resize(own->factors.size());
    for (size_t d = 0; d < shape.size(); ++d)
      if (own->results[0][d].size() == 1)
        view.factors[size_t(own->results[0][d][0])] = wanted.dims[d];
    const dist::Sharding has = dist::naturalResult(mesh_, *own, view, 0);
    dist::setStrategy(border, *own, mesh_, view);
    border->setAttr(kBorderAttr,
                    builder.getDictionaryAttr(
                        {builder.getNamedAttr("name", builder.getStringAttr(func_.getName() + "#" + Twine(count_++))),
                         builder.getNamedAttr("shape", builder.getDenseI64ArrayAttr(shape)),
                         builder.getNamedAttr("sharding", dist::ShardingAttr::get(func_.getContext(), mesh_, has))}));
    paid_.push_back({border.getY(), has});
    return border.getY();
  }

  /// Where the reader let a sum pass that the value is no longer, it lets pass what is left of it.
  llvm::Error readPaid(OpOperand &use, const dist::Sharding &has) {
    Operation *op = use.getOwner();
    llvm::Expected<dist::ShardingRule> rule = dist::boundRule(op);
    if (!rule)
      return rule.takeError();
    llvm::Expected<dist::Strategy> strategy = dist::getStrategy(op, *rule, mesh_);
    if (!strategy)
      return strategy.takeError();
    if (strategy->linear < 0 ||
        !llvm::is_contained(rule->linear[size_t(strategy->linear)], int(use.getOperandNumber())))
      return llvm::Error::success();
    dist::AxisList left;
    for (int axis : strategy->partial)
      if (llvm::is_contained(has.partial, axis))
        left.push_back(axis);
    if (left == strategy->partial)
      return llvm::Error::success();
    strategy->partial = left;
    if (left.empty())
      strategy->linear = -1;
    strategy->results.clear();
    dist::setStrategy(op, *rule, mesh_, *strategy);
    for (OpResult result : op->getResults())
      paid_.push_back({result, dist::naturalResult(mesh_, *rule, *strategy, int(result.getResultNumber()))});
    return llvm::Error::success();
  }

  mutable func::FuncOp func_; // a handle, whose functions are not const
  const dist::Mesh &mesh_;
  const ProgramParts parts_;
  llvm::SmallVector<std::pair<Value, dist::Sharding>> paid_; // values that are less of a sum than they were
  int count_ = 0;
};

} // namespace

llvm::Error addBorders(ModuleOp placed, const dist::Mesh &mesh) {
  for (func::FuncOp func : placed.getOps<func::FuncOp>())
    if (llvm::Error e = Borders(func, mesh).run())
      return e;
  return llvm::Error::success();
}

llvm::Error completeStages(ModuleOp local) {
  for (func::FuncOp func : local.getOps<func::FuncOp>()) {
    const ProgramParts parts(func);
    Builder builder(func.getContext());
    for (int s : llvm::reverse(parts.order)) {
      Operation *op = parts.program.operators[size_t(s)];
      if (parts.free[size_t(s)]) {
        op->removeAttr(dist::kStageAttr);
        continue;
      }
      if (op->hasAttr(dist::kStageAttr))
        continue;
      int stage = kNoStage;
      for (Operation *user : op->getUsers())
        if (const int of = stageIn(user); of != kNoStage) {
          if (stage != kNoStage && stage != of)
            return llvm::createStringError("'%s': operator '%s' is needed in the stages %d and %d, which have meshes "
                                           "of their own",
                                           func.getName().str().c_str(), graph::nameOf(op).c_str(), stage, of);
          stage = of;
        }
      for (Value operand : op->getOperands())
        if (stage == kNoStage)
          stage = stageIn(operand);
      if (stage == kNoStage)
        return llvm::createStringError("'%s': operator '%s' has no stage", func.getName().str().c_str(),
                                       graph::nameOf(op).c_str());
      op->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(stage));
    }
  }
  return llvm::Error::success();
}

namespace {

/// A send or a receive, by function and border, sender and receiver.
using Link = std::tuple<std::string, int64_t, int64_t>;

template <typename Op>
llvm::Error collect(ModuleOp module, int64_t stage, bool sends, std::map<Link, Operation *> &to) {
  llvm::Error error = llvm::Error::success();
  module.walk([&](Op op) {
    auto border = op->template getAttrOfType<DictionaryAttr>(kBorderAttr);
    if (!border) {
      if (!error)
        error = llvm::createStringError("internal error: '" + graph::nameOf(op) + "' crosses stages without a border");
      return;
    }
    const auto peer = int64_t(op.getPeer());
    to[{cast<StringAttr>(border.get("name")).str(), sends ? stage : peer, sends ? peer : stage}] = op;
  });
  return error;
}

} // namespace

llvm::Error joinVersions(llvm::ArrayRef<ModuleOp> cut, llvm::ArrayRef<size_t> of, llvm::ArrayRef<dist::Mesh> meshes,
                         ModuleOp joined) {
  OpBuilder builder = OpBuilder::atBlockEnd(joined.getBody());
  std::map<Link, Operation *> sends, receives;
  for (auto [stage, version] : llvm::enumerate(of)) {
    ModuleOp whole = cut[version];
    llvm::SmallVector<ModuleOp> parts(whole.getOps<ModuleOp>());
    auto part = cast<ModuleOp>(builder.clone(*parts[stage]));
    if (llvm::Error e = collect<dist::SendOp>(part, int64_t(stage), true, sends))
      return e;
    if (llvm::Error e = collect<dist::ReceiveOp>(part, int64_t(stage), false, receives))
      return e;
  }
  if (sends.size() != receives.size())
    return llvm::createStringError("internal error: stages send %zu values and receive %zu", sends.size(),
                                   receives.size());
  int64_t channel = 0;
  for (auto &[link, send] : sends) {
    auto it = receives.find(link);
    if (it == receives.end())
      return llvm::createStringError("internal error: '" + graph::nameOf(send) + "' is sent, but not received");
    auto border = [](Operation *op) { return op->getAttrOfType<DictionaryAttr>(kBorderAttr); };
    const auto &[name, from, to] = link;
    auto has = cast<dist::ShardingAttr>(border(send).get("sharding")).resolve(meshes[size_t(from)]),
         wants = cast<dist::ShardingAttr>(border(it->second).get("sharding")).resolve(meshes[size_t(to)]);
    if (!has)
      return has.takeError();
    if (!wants)
      return wants.takeError();
    Attribute boxes = builder.getDenseI64ArrayAttr(
        dist::numbersOf(dist::boxesBetween(cast<DenseI64ArrayAttr>(border(send).get("shape")).asArrayRef(),
                                           meshes[size_t(from)], *has, meshes[size_t(to)], *wants)));
    for (Operation *end : {send, it->second}) {
      end->setAttr(dist::kBoxesAttr, boxes);
      end->setAttr("channel", builder.getI64IntegerAttr(channel));
      end->removeAttr(kBorderAttr);
    }
    ++channel;
  }
  return llvm::Error::success();
}

} // namespace tessera::compiler
