//===- Training.cpp ------------------------------------------------------------------------------===//
#include "compiler/training/Training.h"

#include "compiler/autodiff/Gradient.h"
#include "compiler/training/GradientNorm.h"
#include "compiler/training/LearningRate.h"
#include "compiler/training/Loss.h"
#include "compiler/training/LossScale.h"
#include "compiler/training/Optimizer.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/GraphAttributes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

namespace {

/// An argument or result of a function under construction.
struct Slot {
  Type type;
  NamedAttrList attrs;
  Value from; // argument: what it stands for in the source function; result: the value returned
};

class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp source, StringRef name) : source_(source), name_(name.str()) {}

  /// Appends the source's arguments of one role.
  void addArguments(StringRef role) {
    for (unsigned i = 0; i < source_.getNumArguments(); ++i)
      if (argRole(source_, i) == role) {
        NamedAttrList attrs(source_.getArgAttrDict(i));
        attrs.erase(kUpdateAttr); // result numbers change
        arguments_.push_back({source_.getArgumentTypes()[i], attrs, source_.getArgument(i)});
      }
  }

  /// Appends an argument of its own, under a new name, and returns its index.
  unsigned addArgument(Type type, StringRef role, const Twine &wanted) {
    std::string name = wanted.str();
    while (llvm::any_of(llvm::seq(source_.getNumArguments()), [&](unsigned i) { return argName(source_, i) == name; }))
      name += "'"; // the model's own names come first
    NamedAttrList attrs;
    Builder b(type.getContext());
    attrs.set(kRoleAttr, b.getStringAttr(role));
    attrs.set(kNameAttr, b.getStringAttr(name));
    arguments_.push_back({type, attrs, Value()});
    return unsigned(arguments_.size() - 1);
  }
  void setArgumentAttr(unsigned i, StringRef name, Attribute value) { arguments_[i].attrs.set(name, value); }
  unsigned numArguments() const { return unsigned(arguments_.size()); }
  void setArgumentType(unsigned i, Type type) { arguments_[i].type = type; }

  /// Creates the function, without operators. The source's step is this program's first argument.
  func::FuncOp create(StringRef step) {
    OpBuilder b(source_);
    SmallVector<Type> types;
    for (const Slot &slot : arguments_)
      types.push_back(slot.type);
    func_ = func::FuncOp::create(b, source_.getLoc(), name_, b.getFunctionType(types, {}));
    Block *block = func_.addEntryBlock();
    for (auto [i, slot] : llvm::enumerate(arguments_))
      if (slot.from)
        mapping_.map(slot.from, block->getArgument(unsigned(i)));
    // The source's step is this program's.
    for (unsigned i = 0; i < source_.getNumArguments(); ++i)
      if (argRole(source_, i) == step && !step.empty())
        mapping_.map(source_.getArgument(i), block->getArgument(0));
    b.setInsertionPointToEnd(block);
    func::ReturnOp::create(b, source_.getLoc());
    return func_;
  }

  /// Appends the source's operators, for a micro-batch.
  void cloneBody(int64_t microBatch = 0) {
    OpBuilder b(func_.getBody().front().getTerminator());
    for (Operation &op : source_.getBody().front().without_terminator()) {
      Operation *made = b.clone(op, mapping_);
      if (microBatch == 0)
        continue;
      made->setAttr(kMicroBatchAttr, b.getI64IntegerAttr(microBatch));
      if (auto name = made->getAttrOfType<StringAttr>(kNameAttr))
        made->setAttr(kNameAttr, b.getStringAttr(microBatchPrefix(microBatch) + name.getValue()));
    }
  }

  /// The clone of a value of the source: the last one made.
  Value clone(Value v) const { return mapping_.lookup(v); }
  /// What stands for a value of the source in clones made from here on.
  void map(Value source, Value value) { mapping_.map(source, value); }
  Value argument(unsigned i) { return func_.getArgument(i); }

  void addResult(Value value, StringRef role, StringRef name) {
    NamedAttrList attrs;
    Builder b(value.getContext());
    attrs.set(kRoleAttr, b.getStringAttr(role));
    attrs.set(kNameAttr, b.getStringAttr(name));
    results_.push_back({value.getType(), attrs, value});
  }
  /// Adds the new value of an argument.
  void addUpdate(unsigned argument, Value value) {
    Builder b(value.getContext());
    setArgumentAttr(argument, kUpdateAttr, b.getI64IntegerAttr(int64_t(results_.size())));
    addResult(value, kUpdate, text(arguments_[argument].attrs.get(kNameAttr)));
  }

  /// Sets types and attributes, and removes operators that nothing uses.
  void finish() {
    SmallVector<Value> values;
    SmallVector<Type> argumentTypes, resultTypes;
    for (const Slot &slot : arguments_)
      argumentTypes.push_back(slot.type);
    for (const Slot &slot : results_) {
      values.push_back(slot.from);
      resultTypes.push_back(slot.type);
    }
    Operation *terminator = func_.getBody().front().getTerminator();
    terminator->setOperands(values);
    MLIRContext *context = func_.getContext();
    func_.setFunctionType(FunctionType::get(context, argumentTypes, resultTypes));
    auto dictionaries = [&](const SmallVector<Slot> &slots) {
      return llvm::map_to_vector(slots, [&](const Slot &s) { return s.attrs.getDictionary(context); });
    };
    func_.setAllArgAttrs(dictionaries(arguments_));
    func_.setAllResultAttrs(dictionaries(results_));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func_.getBody().front())))
      if (op.use_empty() && isMemoryEffectFree(&op) && !op.hasTrait<OpTrait::IsTerminator>())
        op.erase();
  }

  static StringRef text(Attribute attr) {
    auto s = dyn_cast_or_null<StringAttr>(attr);
    return s ? s.getValue() : StringRef();
  }
  StringRef argumentName(unsigned i) const { return text(arguments_[i].attrs.get(kNameAttr)); }
  Attribute argumentAttr(unsigned i, StringRef name) const { return arguments_[i].attrs.get(name); }
  StringRef argumentRole(unsigned i) const { return text(arguments_[i].attrs.get(kRoleAttr)); }
  Type argumentType(unsigned i) const { return arguments_[i].type; }

private:
  func::FuncOp source_, func_;
  std::string name_;
  IRMapping mapping_;
  SmallVector<Slot> arguments_, results_;
};

llvm::Expected<SmallVector<Value>> outputsOf(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return llvm::createStringError("function @%s must be one block of operators", func.getName().str().c_str());
  SmallVector<Value> outputs;
  for (auto [i, value] : llvm::enumerate(func.getBody().front().getTerminator()->getOperands())) {
    if (!isa<RankedTensorType>(value.getType()))
      return llvm::createStringError("result %zu of @%s is not a tensor", i, func.getName().str().c_str());
    if (resultRole(func, unsigned(i)) == kOutput)
      outputs.push_back(value);
  }
  return outputs;
}

llvm::Error noOutput(int64_t index, size_t count, const char *what) {
  return llvm::createStringError("%s names output %lld, but the model has %zu (counted from 0)", what, (long long)index,
                                 count);
}

llvm::Expected<RankedTensorType> lossTarget(const TrainingOptions &options, ArrayRef<Value> outputs) {
  if (options.loss.output >= int64_t(outputs.size()))
    return noOutput(options.loss.output, outputs.size(), "the loss");
  for (const AuxOutput &aux : options.auxOutputs) {
    if (aux.output >= int64_t(outputs.size()))
      return noOutput(aux.output, outputs.size(), "an additional loss");
    Value v = outputs[aux.output];
    if (!isFloat(v) || cast<RankedTensorType>(v.getType()).getNumElements() != 1)
      return llvm::createStringError("output %lld cannot be added to the loss: it must be one floating-point number",
                                     (long long)aux.output);
  }
  return targetType(options.loss, cast<RankedTensorType>(outputs[options.loss.output].getType()));
}

/// The type of `parts` micro-batches together.
llvm::Expected<Type> wholeBatch(Type type, int64_t parts, const Twine &what) {
  auto tensor = cast<RankedTensorType>(type);
  if (parts == 1)
    return type;
  int64_t rows = 0;
  if (tensor.getRank() == 0 || __builtin_mul_overflow(tensor.getDimSize(0), parts, &rows))
    return llvm::createStringError("%s has no dimension of samples: it cannot be cut in %lld "
                                   "micro-batches",
                                   what.str().c_str(), (long long)parts);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[0] = rows;
  return RankedTensorType::get(shape, tensor.getElementType());
}

/// Losses are computed in single precision at least.
Type lossElement(Value output) {
  Type type = elementTypeOf(output);
  return type.getIntOrFloatBitWidth() >= 32 ? type : Float32Type::get(type.getContext());
}

/// Rows part, part + parts, part + 2 parts, ... of a batch.
Value microBatch(OpWriter &b, Value whole, int64_t parts, int64_t part) {
  SmallVector<int64_t> rows(shapeOf(whole));
  rows[0] /= parts;
  SmallVector<int64_t> split(rows), starts(rows.size() + 1, 0), strides(rows.size() + 1, 1);
  split.insert(split.begin() + 1, parts);
  SmallVector<int64_t> limits(split);
  starts[1] = part;
  limits[1] = part + 1;
  Value x = b.reshape(whole, split);
  return b.reshape(b.make<SliceOp>(x, starts, limits, strides), rows);
}

/// The new value of a state of the source, by argument; null for the others.
llvm::Expected<SmallVector<Value>> newStates(func::FuncOp forward) {
  Operation *results = forward.getBody().front().getTerminator();
  SmallVector<Value> states(forward.getNumArguments());
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    std::optional<unsigned> result = updateOf(forward, i);
    if (result && argRole(forward, i) != kState)
      return llvm::createStringError("argument %u of @forward is updated but is no state", i);
    if (result && *result >= results->getNumOperands())
      return llvm::createStringError("argument %u of @forward names result %u, which there is not", i, *result);
    if (result)
      states[i] = results->getOperand(*result);
  }
  return states;
}

/// The axes along which the ranks' slices of an argument differ, ascending.
llvm::Expected<dist::AxisList> slicingAxes(Attribute attr, const dist::Mesh &mesh) {
  dist::AxisList axes;
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  if (!sharding)
    return axes;
  auto resolved = sharding.resolve(mesh);
  if (!resolved)
    return resolved.takeError();
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (mesh.axisSize(axis) > 1 && resolved->uses(axis))
      axes.push_back(axis);
  return axes;
}

llvm::Error buildTrain(func::FuncOp forward, const TrainingOptions &options) {
  auto outputs = outputsOf(forward);
  if (!outputs)
    return outputs.takeError();
  auto target = lossTarget(options, *outputs);
  if (!target)
    return target.takeError();
  auto states = newStates(forward);
  if (!states)
    return states.takeError();

  const int64_t parts = options.accumulate;
  MLIRContext *context = forward.getContext();
  Builder types(context);
  ProgramBuilder program(forward, "train");
  program.addArgument(RankedTensorType::get({}, types.getI64Type()), kStep, "step");
  program.addArguments(kInput);
  unsigned targetArg = program.numArguments();
  if (*target)
    program.addArgument(*target, kTarget, "target");
  for (unsigned i = 1; i < program.numArguments(); ++i) {
    auto type = wholeBatch(program.argumentType(i), parts, "'" + program.argumentName(i) + "'");
    if (!type)
      return type.takeError();
    program.setArgumentType(i, *type);
  }
  unsigned firstParameter = program.numArguments();
  program.addArguments(kParameter);
  unsigned firstState = program.numArguments();
  program.addArguments(kState);
  unsigned firstSlot = program.numArguments();

  // The optimizer's states, parameter by parameter.
  OptimizerBuilder optimizer(options.optimizer);
  SmallVector<unsigned> trained;
  bool doubles = false;
  for (unsigned i = firstParameter; i < firstState; ++i) {
    auto type = dyn_cast<RankedTensorType>(program.argumentType(i));
    if (!type || !isa<FloatType>(type.getElementType()))
      continue;
    trained.push_back(i);
    doubles |= type.getElementType().isF64();
    for (StringRef slot : optimizer.slots()) {
      unsigned state = program.addArgument(type, kState, slot + "/" + program.argumentName(i));
      program.setArgumentAttr(state, kFillAttr, types.getF64FloatAttr(0.0));
      if (Attribute cut = program.argumentAttr(i, dist::kShardingAttr)) // as the parameter
        program.setArgumentAttr(state, dist::kShardingAttr, cut);
    }
  }
  if (trained.empty())
    return llvm::createStringError("the model has no floating-point parameter to train");
  unsigned firstScale = program.numArguments();
  if (options.lossScale)
    for (const LossScaler::Slot &slot : LossScaler::slots(*options.lossScale)) {
      Type element = slot.whole ? Type(types.getI64Type()) : Type(types.getF32Type());
      unsigned state = program.addArgument(RankedTensorType::get({}, element), kState, slot.name);
      program.setArgumentAttr(state, kFillAttr, types.getF64FloatAttr(slot.fill));
      if (!slot.logAs.empty())
        program.setArgumentAttr(state, kLogAsAttr, types.getStringAttr(slot.logAs));
    }

  func::FuncOp train = program.create(kStep);
  Value step = program.argument(0), targets = *target ? program.argument(targetArg) : Value();
  SmallVector<Value> parameters, gradients(trained.size());
  for (unsigned i : trained)
    parameters.push_back(program.argument(i));
  std::optional<LossScaler> scaler;
  if (options.lossScale)
    scaler.emplace(*options.lossScale, std::array{program.argument(firstScale), program.argument(firstScale + 1),
                                                  program.argument(firstScale + 2)});
  LossShare share{parts, Value()};
  Value loss;
  SmallVector<std::pair<Value, Value>> carried; // states, from one micro-batch to the next
  for (int64_t part = 0; part < parts; ++part) {
    Value partTargets = targets;
    if (parts > 1) {
      OpWriter b(train);
      if (part == 0 && targets)
        share.predictions = countPredictions(b, options.loss, targets, lossElement((*outputs)[options.loss.output]));
      b.setName("micro" + Twine(part) + "/batch");
      unsigned argument = 1;
      for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
        Value source = forward.getArgument(i);
        if (argRole(forward, i) == kInput)
          program.map(source, microBatch(b, program.argument(argument++), parts, part));
        else if (argRole(forward, i) == kStep) // other random numbers for every micro-batch
          program.map(source, b.add(b.mul(step, b.integer(parts)), b.integer(part)));
      }
      if (targets)
        partTargets = microBatch(b, targets, parts, part);
    }
    program.cloneBody(part);
    OpWriter b(train);
    b.setMicroBatch(part);
    LossValues values = buildLoss(b, options.loss, program.clone((*outputs)[options.loss.output]), partTargets,
                                  /*withMetrics=*/false, share);
    b.setName("loss");
    for (const AuxOutput &aux : options.auxOutputs) {
      Value v = program.clone((*outputs)[aux.output]);
      double coefficient = aux.coefficient / double(parts);
      Value term = b.cast(b.reshape(b.mul(v, coefficient), {}), elementTypeOf(values.loss));
      values.loss = b.add(values.loss, term);
      values.seeds.push_back({v, b.constant(v.getType(), coefficient)});
    }
    if (scaler)
      scaler->scale(b, values.seeds);
    if (options.gradientScale != 1)
      for (Seed &seed : values.seeds)
        seed.adjoint = b.mul(seed.adjoint, options.gradientScale);
    auto found = differentiate(b, values.seeds, parameters);
    if (!found)
      return found.takeError();
    b.setLoc(forward.getLoc());
    b.setName("loss");
    loss = loss ? b.add(loss, values.loss) : values.loss;
    for (auto [i, gradient] : llvm::enumerate(*found)) {
      b.setName(program.argumentName(trained[i]) + ".accumulate");
      gradients[i] = gradients[i] && gradient ? b.add(gradients[i], gradient) : gradient ? gradient : gradients[i];
    }
    for (unsigned i = 0; i < states->size() && part + 1 < parts; ++i)
      if ((*states)[i])
        carried.push_back({forward.getArgument(i), program.clone((*states)[i])});
    for (auto [source, value] : carried)
      program.map(source, value);
    carried.clear();
  }

  OpWriter b(train);
  b.setLoc(forward.getLoc());
  Type real = doubles ? Type(types.getF64Type()) : Type(types.getF32Type());
  Slices slices;
  if (options.perRank) {
    const dist::Mesh mesh = slices.mesh = dist::getMesh(forward->getParentOfType<ModuleOp>());
    for (auto [i, gradient] : llvm::enumerate(gradients)) {
      auto cut = slicingAxes(program.argumentAttr(trained[i], dist::kShardingAttr), mesh);
      if (!cut)
        return cut.takeError();
      dist::AxisList copies;
      for (int axis = 0; axis < mesh.numAxes(); ++axis)
        if (mesh.axisSize(axis) > 1 && !llvm::is_contained(*cut, axis))
          copies.push_back(axis);
      b.setName(program.argumentName(trained[i]) + ".reduce");
      if (gradient)
        gradient = sumOverRanks(b, mesh, copies, gradient);
      slices.axes.push_back(std::move(*cut));
    }
  }
  // A loss that depends on no parameter has nothing to scale.
  if (scaler && llvm::none_of(gradients, [](Value g) { return bool(g); }))
    scaler.reset();
  if (scaler)
    scaler->unscale(b, gradients, slices);
  Value norm;
  if (options.clipNorm)
    norm = clipGlobalNorm(b, *options.clipNorm, gradients, slices);
  Value lr = buildLearningRate(b, options.schedule, options.optimizer.lr, step, real);
  optimizer.prepare(b, lr, scaler ? scaler->applied(b, step) : step);

  program.addResult(loss, kLoss, "loss");
  size_t slots = optimizer.slots().size();
  SmallVector<std::pair<unsigned, Value>> moments; // after all parameters
  for (auto [i, argument] : llvm::enumerate(trained)) {
    if (!gradients[i])
      continue; // the loss does not depend on it
    b.setUpdateName(program.argumentName(argument) + ".update", program.argumentName(argument));
    unsigned first = firstSlot + unsigned(i * slots);
    SmallVector<Value> old;
    for (size_t s = 0; s < slots; ++s)
      old.push_back(program.argument(first + unsigned(s)));
    OptimizerBuilder::Update update = optimizer.update(b, parameters[i], gradients[i], old);
    if (scaler) {
      update.parameter = scaler->keep(b, update.parameter, parameters[i]);
      for (size_t s = 0; s < slots; ++s)
        update.states[s] = scaler->keep(b, update.states[s], old[s]);
    }
    program.addUpdate(argument, update.parameter);
    for (size_t s = 0; s < slots; ++s)
      moments.push_back({first + unsigned(s), update.states[s]});
  }
  // Running statistics: what the importer computed.
  unsigned state = firstState;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    if ((*states)[i])
      program.addUpdate(state, program.clone((*states)[i]));
    state += argRole(forward, i) == kState;
  }
  for (auto &[argument, value] : moments)
    program.addUpdate(argument, value);
  if (scaler)
    for (auto [i, value] : llvm::enumerate(scaler->update(b)))
      program.addUpdate(firstScale + unsigned(i), value);
  program.addResult(lr, kLearningRate, "learning_rate");
  if (norm)
    program.addResult(norm, kGradientNorm, "gradient_norm");
  program.finish();
  return llvm::Error::success();
}

llvm::Error buildEval(func::FuncOp infer, const TrainingOptions &options) {
  auto outputs = outputsOf(infer);
  if (!outputs)
    return outputs.takeError();
  auto target = lossTarget(options, *outputs);
  if (!target)
    return target.takeError();

  ProgramBuilder program(infer, "eval");
  program.addArguments(kInput);
  unsigned targetArg = program.numArguments();
  if (*target)
    program.addArgument(*target, kTarget, "target");
  program.addArguments(kParameter);
  program.addArguments(kState);
  if (program.numArguments() != infer.getNumArguments() + (*target ? 1 : 0))
    return llvm::createStringError("@infer has arguments that are neither inputs, parameters nor states");
  func::FuncOp eval = program.create("");
  program.cloneBody();
  OpWriter b(eval);
  LossValues loss = buildLoss(b, options.loss, program.clone((*outputs)[options.loss.output]),
                              *target ? program.argument(targetArg) : Value(), /*withMetrics=*/true);

  unsigned next = 0;
  for (unsigned i = 0; i < infer.getNumResults(); ++i)
    if (resultRole(infer, i) == kOutput)
      program.addResult(program.clone((*outputs)[next++]), kOutput, resultName(infer, i));
  program.addResult(loss.loss, kLoss, "loss");
  if (loss.correct)
    program.addResult(loss.correct, kCorrect, "correct");
  program.addResult(loss.predictions, kPredictions, "predictions");
  program.finish();
  return llvm::Error::success();
}

} // namespace

llvm::Error buildTraining(ModuleOp module, const TrainingOptions &options) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward)
    return llvm::createStringError("the module has no @forward to train");
  for (StringRef name : {"train", "eval"})
    if (module.lookupSymbol(name))
      return llvm::createStringError("the module already has @%s", name.str().c_str());
  if (llvm::Error error = buildTrain(forward, options))
    return error;
  if (auto infer = module.lookupSymbol<func::FuncOp>("infer"))
    if (llvm::Error error = buildEval(infer, options))
      return error;
  forward.erase();
  return llvm::Error::success();
}

} // namespace tessera::compiler
