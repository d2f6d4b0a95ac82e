//===- Loss.h - losses as graph operators --------------------------------------------------------===//
//
// Builds the loss of one model output: the mean over the whole (global) batch, that is a sum times
// 1/N, so that a batch cut over ranks gives partial sums and nothing else changes. Where targets may
// be ignored (PyTorch's default for classes), N is a sum too: the number of the others.
//
// Cross-entropy is log_softmax, then a selection by comparison of the targets with the class
// numbers (iota): unlike a gather it stays correct as written when the classes are cut over ranks.
//
//   logits [16, 10], target [16]: eq(reshape(target, [16, 1]), iota [1, 10]) picks one of
//   log_softmax(logits) per row; loss = -(sum(picked) / sum(target != -100))
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_LOSS_H
#define TESSERA_COMPILER_TRAINING_LOSS_H

#include "compiler/autodiff/Gradient.h"
#include "compiler/training/TrainingOptions.h"

namespace tessera::compiler {

struct LossValues {
  mlir::Value loss;              // rank 0, f32 (f64 in a program of doubles)
  llvm::SmallVector<Seed> seeds; // where the gradient starts
  mlir::Value correct;           // rank 0: predictions that hit; null without classes
  mlir::Value predictions;       // rank 0: how many there are
};

/// The type of the targets for an output of this type; null: the loss needs none. Fails if the loss
/// cannot be applied to the output.
llvm::Expected<mlir::RankedTensorType> targetType(const LossOptions &options, mlir::RankedTensorType output);

/// One of `parts` equal micro-batches: its loss is its share of the whole batch's mean.
struct LossShare {
  int64_t parts = 1;
  mlir::Value predictions; // of the whole batch, from countPredictions
};

/// How many of the targets count, where that depends on them (rank 0, of the type of the loss); null:
/// all of them.
mlir::Value countPredictions(graph::OpWriter &builder, const LossOptions &options, mlir::Value target, mlir::Type real);

/// `withMetrics`: also correct and predictions.
LossValues buildLoss(graph::OpWriter &builder, const LossOptions &options, mlir::Value output, mlir::Value target,
                     bool withMetrics, const LossShare &share = {});

} // namespace tessera::compiler

#endif
