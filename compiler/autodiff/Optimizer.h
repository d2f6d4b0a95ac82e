//===- Optimizer.h - learning rates, clipping and updates as graph operators ---------------------===//
//
// Everything an optimizer does is elementwise per parameter, and scalar where it depends on the
// step: it is partitioned like the rest of the program, so a sharded parameter has a sharded update
// and sharded states. The formulas are those of torch.optim (1.13):
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
#ifndef TESSERA_COMPILER_AUTODIFF_OPTIMIZER_H
#define TESSERA_COMPILER_AUTODIFF_OPTIMIZER_H

#include "compiler/autodiff/OpWriter.h"
#include "compiler/autodiff/TrainingOptions.h"

namespace tessera::compiler {

/// The learning rate at `step` (i64, rank 0), as a scalar of the type.
mlir::Value buildLearningRate(OpWriter &builder, const ScheduleOptions &schedule, double lr,
                              mlir::Value step, mlir::Type real);

/// The sum of a value over the ranks along the axes (dist.collective).
mlir::Value sumOverRanks(OpWriter &builder, const dist::Mesh &mesh, const dist::AxisList &axes,
                         mlir::Value value);

/// In a program that is one rank's: the axes along which ranks hold different slices, of every gradient. Without axes
/// gradients are whole.
struct Slices {
  dist::Mesh mesh;
  llvm::SmallVector<dist::AxisList> axes;
};

/// The squares of all numbers of the gradients, added up; null if all gradients are.
mlir::Value sumOfSquares(OpWriter &builder, llvm::ArrayRef<mlir::Value> gradients,
                         const Slices &slices = {});

/// The gradients times min(1, limit / (norm + 1e-6)), norm being that of all of them together
/// (torch.nn.utils.clip_grad_norm_). Null gradients stay null. Returns the norm; null if all gradients are.
mlir::Value clipGlobalNorm(OpWriter &builder, double limit,
                           llvm::MutableArrayRef<mlir::Value> gradients, const Slices &slices = {});

class OptimizerBuilder {
public:
  explicit OptimizerBuilder(const OptimizerOptions &options) : o_(options) {}

  /// Prefixes of the states that a parameter has.
  llvm::SmallVector<llvm::StringRef> slots() const;

  /// Builds what all parameters share. `lr` is a scalar, `step` the number of updates before this one.
  void prepare(OpWriter &builder, mlir::Value lr, mlir::Value step);

  struct Update {
    mlir::Value parameter;
    llvm::SmallVector<mlir::Value> states; // in the order of slots()
  };
  Update update(OpWriter &builder, mlir::Value parameter, mlir::Value gradient,
                llvm::ArrayRef<mlir::Value> states);

private:
  Update sgd(OpWriter &b, mlir::Value p, mlir::Value g, llvm::ArrayRef<mlir::Value> states);
  Update adam(OpWriter &b, mlir::Value p, mlir::Value g, llvm::ArrayRef<mlir::Value> states);

  OptimizerOptions o_;
  mlir::Value lr_;
  mlir::Value share_;               // SGD with dampening: the gradient's share in the buffer
  mlir::Value stepSize_, rootBias_; // Adam: lr / (1 - b1^t), sqrt(1 - b2^t)
  mlir::Value keep_;                // AdamW: 1 - lr wd
};

} // namespace tessera::compiler

#endif
