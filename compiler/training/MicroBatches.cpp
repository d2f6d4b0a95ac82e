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

/// Rows part, part + parts, part + 2 parts, ... of a batch.
Value rowsOf(OpWriter &b, Value whole, int64_t parts, int64_t part) {
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
    sum_.gradients.resize(slots.trained.size());
  }

  llvm::Expected<LossAndGradients> run() {
    for (int64_t part = 0; part < parts_; ++part) {
      Value targets = parts_ > 1 ? takeRows(part) : targets_;
      program_.cloneBody(part);
      if (llvm::Error e = differentiateLoss(part, targets))
        return e;
      if (part + 1 < parts_)
        carryStates();
    }
    return std::move(sum_);
  }

private:
  /// Maps the network's inputs to the rows of the micro-batch, and its step to a number that no other micro-batch has.
  /// Returns the rows of the targets.
  Value takeRows(int64_t part) {
    OpWriter b(program_.function());
    func::FuncOp source = program_.source();
    if (part == 0 && targets_)
      share_.predictions =
          countPredictions(b, options_.loss, targets_, lossElement(forward_.outputs[options_.loss.output]));
    b.setName("micro" + Twine(part) + "/batch");
    unsigned argument = TrainSlots::kFirstInput;
    for (unsigned i = 0; i < source.getNumArguments(); ++i) {
      Value from = source.getArgument(i);
      if (argRole(source, i) == kInput)
        program_.map(from, rowsOf(b, program_.argument(argument++), parts_, part));
      else if (argRole(source, i) == kStep) // other random numbers for every micro-batch
        program_.map(from, b.add(b.mul(program_.argument(TrainSlots::kStep), b.integer(parts_)), b.integer(part)));
    }
    return targets_ ? rowsOf(b, targets_, parts_, part) : Value();
  }

  /// Builds loss and gradients of the last clone, and adds them to those of the micro-batches before.
  llvm::Error differentiateLoss(int64_t part, Value targets) {
    OpWriter b(program_.function());
    b.setMicroBatch(part);
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
    auto found = differentiate(b, values.seeds, parameters_);
    if (!found)
      return found.takeError();
    b.setLoc(program_.source().getLoc());
    b.setName("loss");
    sum_.loss = sum_.loss ? b.add(sum_.loss, values.loss) : values.loss;
    for (auto [i, gradient] : llvm::enumerate(*found)) {
      b.setName(program_.argumentName(slots_.trained[i]) + ".accumulate");
      Value &sum = sum_.gradients[i];
      sum = sum && gradient ? b.add(sum, gradient) : gradient ? gradient : sum;
    }
    return llvm::Error::success();
  }

  /// Maps the states of the next clone to the new states of this one.
  void carryStates() {
    SmallVector<std::pair<Value, Value>> carried; // all are looked up before any is replaced
    for (auto [i, state] : llvm::enumerate(forward_.states))
      if (state)
        carried.push_back({program_.source().getArgument(unsigned(i)), program_.clone(state)});
    for (auto [source, value] : carried)
      program_.map(source, value);
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
  LossAndGradients sum_;
};

} // namespace

llvm::Expected<LossAndGradients> buildMicroBatches(ProgramBuilder &program, const ForwardResults &forward,
                                                   const TrainSlots &slots, const TrainingOptions &options,
                                                   const LossScaler *scaler) {
  return MicroBatches(program, forward, slots, options, scaler).run();
}

} // namespace tessera::compiler
