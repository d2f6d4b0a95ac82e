#include "compiler/training/MicroBatches.h"

#include "compiler/training/Loss.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

namespace {

/// The element type in which the loss is computed: float32 at least.
Type lossElement(Value output) {
  Type type = elementTypeOf(output);
  return type.getIntOrFloatBitWidth() >= 32 ? type : Float32Type::get(type.getContext());
}

class MicroBatches {
public:
  MicroBatches(ProgramBuilder &program, const ForwardResults &forward, const TrainSlots &slots,
               const TrainingOptions &options, const LossScaler *scaler)
      : program_(program), forward_(forward), slots_(slots), options_(options), scaler_(scaler),
        parts_(options.accumulate), share_{parts_, Value()} {
    if (slots.target)
      targets_ = program.argument(*slots.target);
    for (unsigned i : slots.trained)
      parameters_.push_back(program.argument(i));
  }

  llvm::Expected<LossAndGradients> run() {
    Value targets = parts_ > 1 ? takeRows() : targets_;
    program_.cloneBody();
    LossAndGradients found;
    if (llvm::Error e = differentiateLoss(targets, found))
      return e;
    if (parts_ > 1)
      addUp(found);
    return found;
  }

private:
  Value rowsOf(OpWriter &b, Value whole) { return b.make<MicroRowsOp>(whole, parts_).getY(); }

  /// Maps the network's inputs to the rows of the micro-batch, and its step to a number that no other micro-batch has.
  /// Returns the rows of the targets.
  Value takeRows() {
    OpWriter b(program_.function());
    func::FuncOp source = program_.source();
    if (targets_)
      share_.predictions =
          countPredictions(b, options_.loss, targets_, lossElement(forward_.outputs[options_.loss.output]));
    b.setName("micro_batch");
    unsigned argument = TrainSlots::kFirstInput;
    for (unsigned i = 0; i < source.getNumArguments(); ++i) {
      Value from = source.getArgument(i);
      if (argRole(source, i) == kInput)
        program_.map(from, rowsOf(b, program_.argument(argument++)));
      else if (argRole(source, i) == kStep) // other random numbers for every micro-batch
        program_.map(from, b.add(b.mul(program_.argument(TrainSlots::kStep), b.integer(parts_)), number(b)));
    }
    return targets_ ? rowsOf(b, targets_) : Value();
  }

  /// The number of the micro-batch (i64, rank 0).
  Value number(OpWriter &b) {
    auto numbers = RankedTensorType::get({parts_}, IntegerType::get(program_.source().getContext(), 64));
    return b.reshape(rowsOf(b, b.make<IotaOp>(numbers, 0)), {});
  }

  /// Builds loss and gradients of one micro-batch.
  llvm::Error differentiateLoss(Value targets, LossAndGradients &found) {
    OpWriter b(program_.function());
    LossValues values = buildLoss(b, options_.loss, program_.clone(forward_.outputs[options_.loss.output]), targets,
                                  /*withMetrics=*/false, share_);
    b.setName("loss");
    for (const AuxOutput &aux : options_.auxOutputs) {
      Value v = program_.clone(forward_.outputs[aux.output]);
      double coefficient = aux.coefficient / double(parts_);
      Value term = b.cast(b.reshape(b.mul(v, coefficient), {}), elementTypeOf(values.loss));
      values.loss = b.add(values.loss, term);
      values.seeds.push_back({v, b.constant(v.getType(), coefficient)});
    }
    if (scaler_)
      scaler_->scale(b, values.seeds);
    if (options_.gradientScale != 1)
      for (Seed &seed : values.seeds)
        seed.adjoint = b.mul(seed.adjoint, options_.gradientScale);
    found.loss = values.loss;
    return differentiate(b, values.seeds, parameters_).moveInto(found.gradients);
  }

  /// Replaces the loss and the gradients of one micro-batch by their sums over all.
  void addUp(LossAndGradients &found) {
    OpWriter b(program_.function());
    b.setLoc(program_.source().getLoc());
    b.setName("loss.accumulate");
    found.loss = b.make<AccumulateOp>(found.loss, parts_);
    for (auto [i, gradient] : llvm::enumerate(found.gradients)) {
      b.setName(program_.argumentName(slots_.trained[i]) + ".accumulate");
      if (gradient)
        gradient = b.make<AccumulateOp>(gradient, parts_);
    }
  }

  ProgramBuilder &program_;
  const ForwardResults &forward_;
  const TrainSlots &slots_;
  const TrainingOptions &options_;
  const LossScaler *scaler_;
  const int64_t parts_;
  LossShare share_;
  Value targets_;
  SmallVector<Value> parameters_;
};

} // namespace

llvm::Expected<LossAndGradients> buildMicroBatches(ProgramBuilder &program, const ForwardResults &forward,
                                                   const TrainSlots &slots, const TrainingOptions &options,
                                                   const LossScaler *scaler) {
  return MicroBatches(program, forward, slots, options, scaler).run();
}

} // namespace tessera::compiler
