//===- Optimizer.h - updates as graph operators ---------------------===//
//
// An optimizer consists of elementwise operators per parameter, and of scalar operators where it depends on the step.
// It is partitioned like the rest of the program, so a sharded parameter has a sharded update and sharded states. The
// formulas are those of torch.optim (1.13):
//
//   SGD    g += wd p;  buf = g at step 0, else mu buf + (1 - dampening) g;
//          p -= lr buf  (Nesterov: lr (g + mu buf))
//   Adam   g += wd p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  t = step + 1;
//          p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//   AdamW  p *= 1 - lr wd first, instead of g += wd p      (Loshchilov and Hutter, 2019)
//
// States start as zeros: "momentum/<parameter>"; "adam_m/<parameter>", "adam_v/<parameter>".
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_OPTIMIZER_H
#define TESSERA_COMPILER_TRAINING_OPTIMIZER_H

#include "compiler/training/TrainingOptions.h"
#include "dialects/graph/OpWriter.h"

namespace tessera::compiler {

class OptimizerBuilder {
public:
  explicit OptimizerBuilder(const OptimizerOptions &options) : o_(options) {}

  /// Prefixes of the states that a parameter has.
  llvm::SmallVector<llvm::StringRef> slots() const;

  /// Builds the operators that all parameters share. `lr` is a scalar, `step` is the number of updates before this one.
  void prepare(graph::OpWriter &builder, mlir::Value lr, mlir::Value step);

  struct Update {
    mlir::Value parameter;
    llvm::SmallVector<mlir::Value> states; // in the order of slots()
  };
  Update update(graph::OpWriter &builder, mlir::Value parameter, mlir::Value gradient,
                llvm::ArrayRef<mlir::Value> states);

private:
  Update sgd(graph::OpWriter &b, mlir::Value p, mlir::Value g, llvm::ArrayRef<mlir::Value> states);
  Update adam(graph::OpWriter &b, mlir::Value p, mlir::Value g, llvm::ArrayRef<mlir::Value> states);

  OptimizerOptions o_;
  mlir::Value lr_;
  mlir::Value share_;               // SGD with dampening: the gradient's weight in the buffer
  mlir::Value stepSize_, rootBias_; // Adam: lr / (1 - b1^t), sqrt(1 - b2^t)
  mlir::Value keep_;                // AdamW: 1 - lr wd
};

} // namespace tessera::compiler

#endif
