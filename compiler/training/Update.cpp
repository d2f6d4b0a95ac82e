#include "compiler/training/Update.h"

#include "compiler/training/GradientNorm.h"
#include "compiler/training/LearningRate.h"
#include "compiler/training/Optimizer.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

namespace {

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

/// In mode hybrid, sums every gradient over the ranks that hold the same slice of its parameter.
llvm::Expected<Slices> sumGradients(OpWriter &b, ProgramBuilder &program, const TrainSlots &slots,
                                    MutableArrayRef<Value> gradients) {
  Slices slices;
  const dist::Mesh mesh = slices.mesh = dist::getMesh(program.source()->getParentOfType<ModuleOp>());
  for (auto [i, gradient] : llvm::enumerate(gradients)) {
    auto cut = slicingAxes(program.argumentAttr(slots.trained[i], dist::kShardingAttr), mesh);
    if (!cut)
      return cut.takeError();
    dist::AxisList copies;
    for (int axis = 0; axis < mesh.numAxes(); ++axis)
      if (mesh.axisSize(axis) > 1 && !llvm::is_contained(*cut, axis))
        copies.push_back(axis);
    b.setName(program.argumentName(slots.trained[i]) + ".reduce");
    if (gradient)
      gradient = sumOverRanks(b, mesh, copies, gradient);
    slices.axes.push_back(std::move(*cut));
  }
  return slices;
}

/// Lets the sums over ranks that the gradients are be sent in fewer bits. Not those of other types, nor what something
/// else reads, which has to be as it was.
void compressSums(OpWriter &b, ProgramBuilder &program, const TrainSlots &slots, const dist::Wire &wire,
                  MutableArrayRef<Value> gradients) {
  for (auto [i, gradient] : llvm::enumerate(gradients)) {
    if (!gradient || !elementTypeOf(gradient).isF32() || !gradient.use_empty())
      continue;
    const StringRef parameter = program.argumentName(slots.trained[i]);
    b.setUpdateName(parameter + ".sum", parameter);
    auto sum = b.make<ReshapeOp>(gradient.getType(), gradient);
    sum->setAttr(kSentAsAttr, StringAttr::get(sum->getContext(), wire.str()));
    gradient = sum.getY();
  }
}

/// An argument and its new value.
using NewValue = std::pair<unsigned, Value>;

/// Adds the parameters' new values; returns those of the optimizer's states.
SmallVector<NewValue> updateParameters(OpWriter &b, ProgramBuilder &program, OptimizerBuilder &optimizer,
                                       const TrainSlots &slots, ArrayRef<Value> gradients,
                                       const std::optional<LossScaler> &scaler) {
  const size_t moments = optimizer.slots().size();
  SmallVector<NewValue> states;
  for (auto [i, argument] : llvm::enumerate(slots.trained)) {
    if (!gradients[i])
      continue; // the loss does not depend on it
    b.setUpdateName(program.argumentName(argument) + ".update", program.argumentName(argument));
    const unsigned first = slots.firstMoment + unsigned(i * moments);
    SmallVector<Value> old;
    for (size_t s = 0; s < moments; ++s)
      old.push_back(program.argument(first + unsigned(s)));
    Value parameter = program.argument(argument);
    OptimizerBuilder::Update update = optimizer.update(b, parameter, gradients[i], old);
    if (scaler) {
      update.parameter = scaler->keep(b, update.parameter, parameter);
      for (size_t s = 0; s < moments; ++s)
        update.states[s] = scaler->keep(b, update.states[s], old[s]);
    }
    program.addUpdate(argument, update.parameter);
    for (size_t s = 0; s < moments; ++s)
      states.push_back({first + unsigned(s), update.states[s]});
  }
  return states;
}

/// Adds the new values of the running statistics, which @forward computes.
void updateStatistics(ProgramBuilder &program, const ForwardResults &forward, const TrainSlots &slots) {
  unsigned state = slots.firstState;
  for (auto [i, value] : llvm::enumerate(forward.states)) {
    if (value)
      program.addUpdate(state, program.clone(value));
    state += argRole(program.source(), unsigned(i)) == kState;
  }
}

} // namespace

llvm::Error buildUpdate(ProgramBuilder &program, const ForwardResults &forward, const TrainSlots &slots,
                        const TrainingOptions &options, LossAndGradients found, std::optional<LossScaler> scaler) {
  OpWriter b(program.function());
  b.setLoc(program.source().getLoc());
  SmallVector<Value> &gradients = found.gradients;
  Slices slices;
  if (options.perRank)
    if (llvm::Error e = sumGradients(b, program, slots, gradients).moveInto(slices))
      return e;
  // A loss that depends on no parameter has nothing to scale.
  if (scaler && llvm::none_of(gradients, [](Value g) { return bool(g); }))
    scaler.reset();
  if (scaler)
    scaler->unscale(b, gradients);
  if (options.compress) // once a step, and in units that no scale changes
    compressSums(b, program, slots, options.compress, gradients);
  if (scaler)
    scaler->check(b, gradients, slices);
  Value norm;
  if (options.clipNorm)
    norm = clipGlobalNorm(b, *options.clipNorm, gradients, slices);

  MLIRContext *context = program.source().getContext();
  Type real = slots.doubles ? Type(Float64Type::get(context)) : Type(Float32Type::get(context));
  Value step = program.argument(TrainSlots::kStep);
  Value rate = buildLearningRate(b, options.schedule, options.optimizer.lr, step, real);
  OptimizerBuilder optimizer(options.optimizer);
  optimizer.prepare(b, rate, scaler ? scaler->applied(b, step) : step);

  program.addResult(found.loss, kLoss, "loss");
  const SmallVector<NewValue> moments = updateParameters(b, program, optimizer, slots, gradients, scaler);
  updateStatistics(program, forward, slots);
  for (auto [argument, value] : moments)
    program.addUpdate(argument, value);
  if (scaler)
    for (auto [i, value] : llvm::enumerate(scaler->update(b)))
      program.addUpdate(slots.firstScale + unsigned(i), value);
  program.addResult(rate, kLearningRate, "learning_rate");
  if (norm)
    program.addResult(norm, kGradientNorm, "gradient_norm");
  return llvm::Error::success();
}

} // namespace tessera::compiler
