#include "compiler/hybrid/Complete.h"

#include "compiler/hybrid/Varying.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/DenseSet.h"

#include <set>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

using dist::AxisList;
using dist::Collective;
using dist::CollectiveKind;
using dist::Mesh;
using dist::Sharding;

namespace {

ArrayRef<int64_t> shapeOf(Value v) { return cast<RankedTensorType>(v.getType()).getShape(); }
bool isFloat(Value v) { return isa<FloatType>(cast<RankedTensorType>(v.getType()).getElementType()); }

/// Whether the argument is a large constant of the importer. Every rank holds all of it.
bool isConstant(StringRef name) { return name.starts_with("constant/"); }

Expected<Sharding> argumentSharding(func::FuncOp func, unsigned arg, const HybridOptions &options) {
  StringRef role = graph::argRole(func, arg), name = graph::argName(func, arg);
  ArrayRef<int64_t> local = shapeOf(func.getArgument(arg));
  if (role == graph::kInput)
    return options.input(name, local);
  if (role == graph::kTarget)
    return options.targets(local);
  if ((role == graph::kParameter || role == graph::kState) && !isConstant(name))
    return options.parameter(name, local);
  return Sharding::replicated(int64_t(local.size()));
}

/// Checks that every name in the options matches an input, output or parameter of the model.
Error checkNames(ModuleOp module, const HybridOptions &options) {
  std::set<std::string> inputs, parameters, outputs;
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StringRef role = graph::argRole(func, i), name = graph::argName(func, i);
      if (role == graph::kInput)
        inputs.insert(name.str());
      else if ((role == graph::kParameter || role == graph::kState) && !isConstant(name))
        parameters.insert(name.str());
    }
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (graph::resultRole(func, i) == graph::kOutput)
        outputs.insert(graph::resultName(func, i).str());
  }
  auto check = [&](StringRef key, StringRef what, const auto &list, const std::set<std::string> &names) -> Error {
    for (const auto &[pattern, cuts] : list) {
      const std::vector<std::pair<std::string, HybridOptions::Cuts>> alone{{pattern, cuts}};
      if (none_of(names, [&](const std::string &name) { return HybridOptions::names(alone, name); }))
        return options.error(key, "the model has no " + what + " '" + pattern + "'");
    }
    return Error::success();
  };
  if (Error e = check("inputs", "input", options.inputs, inputs))
    return e;
  if (Error e = check("outputs", "output", options.outputs, outputs))
    return e;
  return check("parameters", "parameter", options.parameters, parameters);
}

/// The axes along which the values differ that are combined with the random numbers. The search follows the numbers
/// through operators that read nothing else (but constants), up to the operators that also read other values.
AxisSet met(graph::RandomOp random, const Varying &varying) {
  AxisSet set = 0;
  llvm::DenseSet<Value> derived{random.getY()};
  SmallVector<Value> work{random.getY()};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      bool pure = true;
      for (Value operand : user->getOperands())
        if (!derived.contains(operand)) {
          set |= varying.of(operand);
          Operation *maker = operand.getDefiningOp();
          pure &= maker && maker->hasTrait<OpTrait::ConstantLike>();
        }
      if (pure)
        for (Value result : user->getResults())
          if (derived.insert(result).second)
            work.push_back(result);
    }
  return set;
}

/// Gives random numbers the offsets of a tensor whose dimension 0 is cut along these axes. If dimension 0 is the batch,
/// the numbers are those of the unpartitioned program.
void spreadRandom(func::FuncOp func, const Mesh &mesh) {
  const Varying varying(func, mesh);
  Builder builder(func.getContext());
  for (graph::RandomOp random : func.getOps<graph::RandomOp>()) {
    AxisList axes = axisList(met(random, varying));
    SmallVector<int64_t> whole(shapeOf(random.getY())), offset(whole.size(), 0);
    if (axes.empty() || whole.empty())
      continue;
    int64_t rows = whole[0];
    whole[0] *= mesh.size(axes);
    SmallVector<Attribute> perRank;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      offset[0] = rows * mesh.coordinate(rank, axes);
      perRank.push_back(
          builder.getDictionaryAttr({builder.getNamedAttr("global_shape", builder.getDenseI64ArrayAttr(whole)),
                                     builder.getNamedAttr("offset", builder.getDenseI64ArrayAttr(offset))}));
    }
    random->setAttr(dist::kPerRankAttr, builder.getArrayAttr(perRank));
  }
}

class Completion {
public:
  Completion(func::FuncOp func, const HybridOptions &options)
      : func_(func), ret_(func.getBody().front().getTerminator()), options_(options), mesh_(options.mesh),
        varying_(func, mesh_), builder_(ret_) {
    counted_ = axisSet(options.batch);
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      AxisSet cut = axesOf(sharding(i));
      StringRef role = graph::argRole(func, i);
      if (role == graph::kInput || role == graph::kTarget)
        data_ |= cut;
      if (role == graph::kTarget)
        counted_ = cut;
    }
    data_ = (data_ | axisSet(options.batch)) & longAxes(mesh_);
    counted_ &= longAxes(mesh_);
  }

  Error run() {
    dropRepetition();
    for (unsigned r = 0; r < ret_->getNumOperands(); ++r)
      if (Error e = result(r))
        return e;
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      if (Error e = setWhole(sharding(i), func_.getArgument(i),
                             [&](StringRef name, Attribute a) { func_.setArgAttr(i, name, a); }))
        return e;
    return Error::success();
  }

private:
  Sharding sharding(unsigned arg) {
    return cantFail(func_.getArgAttrOfType<dist::ShardingAttr>(arg, dist::kShardingAttr).resolve(mesh_));
  }

  /// Replaces a sum over axes along which the value is equal by a product. Adjoints of reductions often are such sums
  /// (docs/hybrid.md).
  void dropRepetition() {
    for (auto op : make_early_inc_range(func_.getOps<dist::CollectiveOp>())) {
      varying_.update(op);
      Collective c = op.getCollective(mesh_);
      if (c.kind != CollectiveKind::AllReduce || c.reduction != dist::Reduction::Sum || !isFloat(op.getX()))
        continue;
      AxisSet all = axisSet(c.axes), needed = all & varying_.of(op.getX());
      if (needed == (all & longAxes(mesh_)))
        continue;
      builder_.setInsertionPoint(op);
      name_ = graph::nameOf(op);
      origin_ = op;
      Value y = sum(op.getX(), all);
      op.replaceAllUsesWith(y);
      op.erase();
    }
    origin_ = nullptr;
    builder_.setInsertionPoint(ret_);
  }

  template <typename Op> Value named(Op op, StringRef suffix = "") {
    op->setAttr(graph::kNameAttr, builder_.getStringAttr(name_ + suffix));
    if (origin_)
      graph::copyOrigin(origin_, op);
    varying_.update(op);
    return op->getResult(0);
  }

  Value times(Value x, double factor) {
    if (factor == 1)
      return x;
    auto scalar = RankedTensorType::get({}, cast<RankedTensorType>(x.getType()).getElementType());
    auto constant = graph::ConstantOp::create(builder_, x.getLoc(), scalar, factor);
    varying_.update(constant); // its address may be that of an operator that was erased
    return named(graph::MulOp::create(builder_, x.getLoc(), x, constant), ".scale");
  }

  Value allReduce(Value x, AxisSet axes) {
    if (!axes)
      return x;
    Collective c;
    c.kind = CollectiveKind::AllReduce;
    c.axes = axisList(axes);
    c.reduction = dist::Reduction::Sum;
    c.localIn = c.localOut = dist::Shape(shapeOf(x));
    return named(dist::CollectiveOp::create(builder_, x.getLoc(), x, mesh_, c));
  }

  /// The sum of x over the ranks along the axes. Along axes on which x does not differ, it is a product.
  Value sum(Value x, AxisSet axes) {
    AxisSet differ = axes & varying_.of(x);
    return times(allReduce(x, differ), double(mesh_.size(axisList(axes & ~differ))));
  }
  Value mean(Value x, AxisSet axes) {
    AxisSet differ = axes & varying_.of(x);
    return times(allReduce(x, differ), 1.0 / double(mesh_.size(axisList(differ))));
  }

  /// "axis 'model'" or "axes 'model', 'seq'".
  std::string text(AxisSet axes) const {
    std::string names;
    for (int axis : axisList(axes))
      names += (names.empty() ? "'" : ", '") + mesh_.axisName(axis).str() + "'";
    return (axisList(axes).size() > 1 ? "axes " : "axis ") + names;
  }

  /// Completes a result that must be one number for all ranks: the loss is averaged, counts are summed.
  Expected<Sharding> number(unsigned r, StringRef role, Value &value) {
    if (AxisSet astray = varying_.of(value) & ~data_)
      return options_.error("", "the " + role + " differs along " + text(astray) +
                                    ", which cuts neither inputs nor targets: a collective over it "
                                    "is missing (an AllReduce of partial sums, an AllGather of "
                                    "slices), or \"inputs\" and \"target\" do not say what it cuts");
    name_ = (role + (role == graph::kLoss ? ".mean" : ".sum")).str();
    value = role == graph::kLoss ? mean(value, data_) : sum(value, counted_);
    if (AxisSet rest = varying_.of(value))
      return options_.error("target", "the number of " + role + " differs along " + text(rest) +
                                          ", which cuts inputs but not the targets");
    ret_->setOperand(r, value);
    return Sharding::replicated(0);
  }

  Expected<Sharding> output(unsigned r, Value &value) {
    StringRef name = graph::resultName(func_, r);
    AxisSet differs = varying_.of(value);
    if (HybridOptions::names(options_.outputs, name)) {
      auto sharding = options_.find(options_.outputs, "outputs", name, shapeOf(value));
      if (sharding && (differs & ~axesOf(*sharding)))
        return options_.error("outputs", "'" + name + "' differs along " + text(differs & ~axesOf(*sharding)) +
                                             ", too: gather it, or say which dimension that cuts");
      return sharding;
    }
    Sharding sharding = Sharding::replicated(int64_t(shapeOf(value).size()));
    if (!differs)
      return sharding;
    if (AxisSet astray = differs & ~data_)
      return options_.error("outputs", "the output '" + name + "' differs along " + text(astray) +
                                           ": gather it (AllGather, AllReduce), or say under "
                                           "\"outputs\" which dimension is cut by it");
    if (shapeOf(value).empty() && isFloat(value)) {
      name_ = name.str() + ".mean";
      value = mean(value, differs);
      ret_->setOperand(r, value);
      return sharding;
    }
    if (shapeOf(value).empty() || (differs & ~axisSet(options_.batch)))
      return options_.error("outputs", "the output '" + name + "' differs along " + text(differs) +
                                           ": say under \"outputs\" which dimensions that cuts");
    for (int axis : options_.batch)
      if (differs >> axis & 1)
        sharding.dims[0].push_back(axis);
    return sharding;
  }

  Expected<Sharding> update(unsigned r, unsigned arg, Value &value) {
    Sharding old = sharding(arg);
    AxisSet astray = varying_.of(value) & ~axesOf(old);
    if (astray && graph::argRole(func_, arg) == graph::kParameter)
      return options_.error("parameters",
                            "the new value of '" + graph::argName(func_, arg) + "' differs along " + text(astray));
    if (astray) {
      name_ = graph::argName(func_, arg).str() + ".mean";
      value = mean(value, astray);
      ret_->setOperand(r, value);
    }
    return old;
  }

  Error result(unsigned r) {
    Value value = ret_->getOperand(r);
    StringRef role = graph::resultRole(func_, r);
    std::optional<unsigned> updated;
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      if (graph::updateOf(func_, i) == r)
        updated = i;
    // Learning rate and gradient norm are equal on all ranks, and are not summed over the batch.
    const bool isOutput = role == graph::kOutput || role == graph::kLearningRate || role == graph::kGradientNorm;
    Expected<Sharding> cut = updated    ? update(r, *updated, value)
                             : isOutput ? output(r, value)
                                        : number(r, role, value);
    if (!cut)
      return cut.takeError();
    return setWhole(*cut, value, [&](StringRef name, Attribute a) { func_.setResultAttr(r, name, a); });
  }

  template <typename Set> Error setWhole(const Sharding &sharding, Value value, Set set) {
    auto whole = wholeShape(mesh_, sharding, shapeOf(value));
    if (!whole)
      return whole.takeError();
    set(dist::kShardingAttr, dist::ShardingAttr::get(func_.getContext(), mesh_, sharding));
    set(dist::kGlobalShapeAttr, builder_.getDenseI64ArrayAttr(*whole));
    return Error::success();
  }

  func::FuncOp func_;
  Operation *ret_;
  const HybridOptions &options_;
  const Mesh &mesh_;
  Varying varying_;
  OpBuilder builder_;
  std::string name_;
  Operation *origin_ = nullptr; // the operator whose origin new operators get; null: none
  AxisSet data_ = 0;            // the axes that cut inputs or targets; the loss is averaged over them
  AxisSet counted_ = 0;         // the axes that cut targets; predictions are counted over them
};

} // namespace

Error annotate(ModuleOp module, const HybridOptions &options) {
  if (Error e = checkNames(module, options))
    return e;
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      Expected<Sharding> sharding = argumentSharding(func, i, options);
      if (!sharding)
        return sharding.takeError();
      func.setArgAttr(i, dist::kShardingAttr, dist::ShardingAttr::get(module.getContext(), options.mesh, *sharding));
    }
    spreadRandom(func, options.mesh);
  }
  return Error::success();
}

Error complete(ModuleOp module, const HybridOptions &options) {
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      if (func.getArgAttr(i, dist::kShardingAttr))
        continue; // arguments that buildTraining added, the step and the targets, have none
      Expected<Sharding> sharding = argumentSharding(func, i, options);
      if (!sharding)
        return sharding.takeError();
      func.setArgAttr(i, dist::kShardingAttr, dist::ShardingAttr::get(module.getContext(), options.mesh, *sharding));
    }
    if (Error e = Completion(func, options).run())
      return e;
    func.setFunctionType(FunctionType::get(module.getContext(), func.getBody().getArgumentTypes(),
                                           func.getBody().front().getTerminator()->getOperandTypes()));
  }
  return Error::success();
}

} // namespace tessera::compiler
