//===- Loss.h - losses as graph operators --------------------------------------------------------===//
//
// Builds the loss of one model output: the mean over the whole (global) batch. The mean is a sum times 1/N, so that a
// batch cut over ranks gives partial sums and nothing else changes. Where targets may be ignored (PyTorch's default for
// classes), N is a sum, too: the number of targets that are not ignored.
//
// Cross-entropy is log_softmax followed by a selection. A comparison of the targets with the class numbers (iota)
// selects the class. Unlike a gather, it needs no change when the classes are cut over ranks, and it shares a loop with
// the log-probabilities, so that neither they nor their gradient are ever in memory (graph-decompose-norms).
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
  llvm::SmallVector<Seed> seeds; // values with their adjoints, from which differentiation starts
  mlir::Value correct;           // rank 0: the number of correct predictions; null without classes
  mlir::Value predictions;       // rank 0: the number of predictions
};

/// The type of the targets for an output of this type; null: the loss needs none. Fails if the loss
/// cannot be applied to the output.
llvm::Expected<mlir::RankedTensorType> targetType(const LossOptions &options, mlir::RankedTensorType output);

/// One of `parts` equal micro-batches. Its loss is its term of the whole batch's mean.
struct LossShare {
  int64_t parts = 1;
  mlir::Value predictions; // of the whole batch, from countPredictions
};

/// The number of targets that are not ignored (rank 0, of the type of the loss). Null if no target can be ignored.
mlir::Value countPredictions(graph::OpWriter &builder, const LossOptions &options, mlir::Value target, mlir::Type real);

/// `withMetrics`: also correct and predictions.
LossValues buildLoss(graph::OpWriter &builder, const LossOptions &options, mlir::Value output, mlir::Value target,
                     bool withMetrics, const LossShare &share = {});

} // namespace tessera::compiler

#endif
