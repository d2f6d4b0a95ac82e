//===- Training.cpp - builds @train and @eval, and checks the network for it ---------------------===//
#include "compiler/training/Training.h"

#include "compiler/training/Loss.h"
#include "compiler/training/Update.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

namespace {

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

/// The targets' type for one batch of the network's size; null: the loss needs none.
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

/// The new value of a state of the source, by argument; null for the others.
llvm::Expected<SmallVector<Value>> newStates(func::FuncOp forward) {
  Operation *results = forward.getBody().front().getTerminator();
  SmallVector<Value> states(forward.getNumArguments());
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    std::optional<unsigned> result = updateOf(forward, i);
    if (result && argRole(forward, i) != kState)
      return llvm::createStringError("argument %u of @forward is updated but is no state", i);
    if (result && *result >= results->getNumOperands())
      return llvm::createStringError("argument %u of @forward names result %u, which does not exist", i, *result);
    if (result)
      states[i] = results->getOperand(*result);
  }
  return states;
}

llvm::Error buildTrain(func::FuncOp source, const TrainingOptions &options) {
  ForwardResults forward;
  RankedTensorType target;
  if (llvm::Error e = outputsOf(source).moveInto(forward.outputs))
    return e;
  if (llvm::Error e = lossTarget(options, forward.outputs).moveInto(target))
    return e;
  if (llvm::Error e = newStates(source).moveInto(forward.states))
    return e;

  ProgramBuilder program(source, "train");
  llvm::Expected<TrainSlots> slots = addTrainSlots(program, options, target);
  if (!slots)
    return slots.takeError();
  program.create(kStep);
  std::optional<LossScaler> scaler;
  if (options.lossScale)
    scaler.emplace(*options.lossScale,
                   std::array{program.argument(slots->firstScale), program.argument(slots->firstScale + 1),
                              program.argument(slots->firstScale + 2)});
  llvm::Expected<LossAndGradients> found =
      buildMicroBatches(program, forward, *slots, options, scaler ? &*scaler : nullptr);
  if (!found)
    return found.takeError();
  if (llvm::Error e = buildUpdate(program, forward, *slots, options, std::move(*found), scaler))
    return e;
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
