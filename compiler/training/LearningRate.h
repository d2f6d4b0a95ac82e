//===- LearningRate.h - learning rates as functions of the step -------------------------------------===//
//
// A schedule becomes scalar operators on the number of the step, so the same program runs at every learning rate:
//
//   schedule cosine:steps=100,warmup=10, lr 0.1:   step 4 -> 0.05   step 10 -> 0.1   step 110 -> 0
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_LEARNINGRATE_H
#define TESSERA_COMPILER_TRAINING_LEARNINGRATE_H

#include "compiler/training/TrainingOptions.h"
#include "dialects/graph/OpWriter.h"

namespace tessera::compiler {

/// The learning rate at `step` (i64, rank 0), as a scalar of the type.
mlir::Value buildLearningRate(graph::OpWriter &builder, const LearningRateOptions &schedule, double lr,
                              mlir::Value step, mlir::Type real);

} // namespace tessera::compiler

#endif
