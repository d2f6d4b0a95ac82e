//===- LossScale.h - loss scaling for gradients in float16 ----------------------------------------===//
//
// Dynamic loss scaling follows Micikevicius et al., "Mixed Precision Training", ICLR 2018, with the rule of
// torch.cuda.amp.GradScaler. Gradients are those of `scale` times the loss, so that they do not underflow in float16,
// and are divided by the scale in float32. If any of them, on any rank, is infinite or NaN, the step changes no
// parameter and no optimizer state, and the scale shrinks. After `interval` good steps in a row the scale grows.
//
//   scale 65536, a gradient overflows:   parameters stay, scale 32768, skipped 1
//   2000 good steps later:               scale 65536
//
// The state is three tensors of rank 0 that checkpoints carry like every other: "loss_scale/scale",
// "loss_scale/good" (good steps in a row) and "loss_scale/skipped" (steps skipped so far). Adam's bias correction
// counts the steps that were not skipped; learning rate schedules count all.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_LOSSSCALE_H
#define TESSERA_COMPILER_TRAINING_LOSSSCALE_H

#include "compiler/autodiff/Gradient.h"
#include "compiler/training/GradientNorm.h"
#include "compiler/training/TrainingOptions.h"
#include "dialects/graph/OpWriter.h"

#include <array>

namespace tessera::compiler {

class LossScaler {
public:
  struct Slot {
    llvm::StringRef name;
    bool whole; // the state is an i64, else a float32
    double fill;
    llvm::StringRef logAs; // its name in the log of a training step; empty: it is not logged
  };
  /// The states, in the order of `old` below.
  static std::array<Slot, 3> slots(const LossScaleOptions &options);

  LossScaler(const LossScaleOptions &options, std::array<mlir::Value, 3> old) : o_(options), old_(old) {}

  /// Multiplies the adjoints that differentiation starts from.
  void scale(graph::OpWriter &b, llvm::MutableArrayRef<Seed> seeds) const;
  /// Divides the gradients by the scale. Null gradients stay null.
  void unscale(graph::OpWriter &b, llvm::MutableArrayRef<mlir::Value> gradients) const;
  /// Finds whether all gradients are finite.
  void check(graph::OpWriter &b, llvm::ArrayRef<mlir::Value> gradients, const Slices &slices = {});
  /// The number of steps that changed parameters: `step` less the steps that were skipped.
  mlir::Value applied(graph::OpWriter &b, mlir::Value step) const;
  /// `updated` in a good step, else `old`.
  mlir::Value keep(graph::OpWriter &b, mlir::Value updated, mlir::Value old) const;
  /// The states' new values.
  std::array<mlir::Value, 3> update(graph::OpWriter &b) const;

private:
  LossScaleOptions o_;
  std::array<mlir::Value, 3> old_;
  mlir::Value good_; // i1
};

} // namespace tessera::compiler

#endif
