#include "compiler/training/Slots.h"

#include "compiler/training/LossScale.h"
#include "compiler/training/Optimizer.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/GraphAttributes.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

/// The type of `parts` micro-batches together.
static llvm::Expected<Type> wholeBatch(Type type, int64_t parts, const Twine &what) {
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

/// Adds the optimizer's states, parameter by parameter.
static void addMoments(ProgramBuilder &program, const OptimizerOptions &options, TrainSlots &slots,
                       unsigned firstParameter) {
  Builder attributes(program.source().getContext());
  const OptimizerBuilder optimizer(options);
  for (unsigned i = firstParameter; i < slots.firstState; ++i) {
    auto type = dyn_cast<RankedTensorType>(program.argumentType(i));
    if (!type || !isa<FloatType>(type.getElementType()) || program.argumentAttr(i, kFrozenAttr))
      continue;
    slots.trained.push_back(i);
    slots.doubles |= type.getElementType().isF64();
    for (StringRef prefix : optimizer.slots()) {
      unsigned state = program.addArgument(type, kState, prefix + "/" + program.argumentName(i));
      program.setArgumentAttr(state, kFillAttr, attributes.getF64FloatAttr(0.0));
      if (Attribute cut = program.argumentAttr(i, dist::kShardingAttr)) // as the parameter
        program.setArgumentAttr(state, dist::kShardingAttr, cut);
    }
  }
}

static void addScale(ProgramBuilder &program, const LossScaleOptions &options) {
  Builder types(program.source().getContext());
  for (const LossScaler::Slot &slot : LossScaler::slots(options)) {
    Type element = slot.whole ? Type(types.getI64Type()) : Type(types.getF32Type());
    unsigned state = program.addArgument(RankedTensorType::get({}, element), kState, slot.name);
    program.setArgumentAttr(state, kFillAttr, types.getF64FloatAttr(slot.fill));
    if (!slot.logAs.empty())
      program.setArgumentAttr(state, kLogAsAttr, types.getStringAttr(slot.logAs));
  }
}

llvm::Expected<TrainSlots> addTrainSlots(ProgramBuilder &program, const TrainingOptions &options,
                                         RankedTensorType target) {
  TrainSlots slots;
  Builder types(program.source().getContext());
  program.addArgument(RankedTensorType::get({}, types.getI64Type()), kStep, "step");
  program.addArguments(kInput);
  if (target)
    slots.target = program.addArgument(target, kTarget, "target");
  for (unsigned i = TrainSlots::kFirstInput; i < program.numArguments(); ++i) {
    auto type = wholeBatch(program.argumentType(i), options.accumulate, "'" + program.argumentName(i) + "'");
    if (!type)
      return type.takeError();
    program.setArgumentType(i, *type);
  }
  const unsigned firstParameter = program.numArguments();
  program.addArguments(kParameter);
  slots.firstState = program.numArguments();
  program.addArguments(kState);
  slots.firstMoment = program.numArguments();
  addMoments(program, options.optimizer, slots, firstParameter);
  if (slots.trained.empty())
    return llvm::createStringError("the model has no floating-point parameter to train that is not frozen");
  slots.firstScale = program.numArguments();
  if (options.lossScale)
    addScale(program, *options.lossScale);
  return slots;
}

} // namespace tessera::compiler
